// One request by the official client for Node: reads {url, key, method, path, headers, bodyFile} from the argument, prints
// what the client makes of the reply: {status, error, headers}, or {failure} when it sees no reply at all.
const fs = require("fs");
const { OpenAI } = require("openai");

async function main() {
  const asked = JSON.parse(process.argv[2]);
  const client = new OpenAI({ baseURL: asked.url, apiKey: asked.key, maxRetries: 0 });
  const options = { headers: asked.headers };
  if (asked.bodyFile) {
    options.body = fs.readFileSync(asked.bodyFile);
    options.headers = { "Content-Type": "application/json", ...asked.headers };
  }
  try {
    await client[asked.method](asked.path, options);
    return { status: 200 };
  } catch (error) {
    if (!error.status) return { failure: String(error) + " " + String(error.cause) };
    const headers = Object.fromEntries(error.headers.entries());
    return { status: error.status, error: error.error, headers };
  }
}

main().then((result) => console.log(JSON.stringify(result)));
