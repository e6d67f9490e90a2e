"""The official openai client against the real server: typed results, streams, usage, errors as exceptions."""
import sys

import openai

import _harness
from _harness import Server, test

ASK = [{"role": "user", "content": "Say hello to the world."}]


@test
def lists_and_finds_models(client):
    models = client.models.list().data
    assert len(models) == 1 and models[0].object == "model" and models[0].owned_by == "incipit"
    assert client.models.retrieve(models[0].id).id == models[0].id


@test
def chats(client):
    reply = client.chat.completions.create(model="any", messages=ASK, temperature=0, max_tokens=10)
    choice = reply.choices[0]
    assert choice.message.role == "assistant" and choice.message.content and choice.message.refusal is None
    assert choice.message.tool_calls is None and choice.finish_reason in ("stop", "length")
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert isinstance(reply.usage.prompt_tokens_details.cached_tokens, int)
    assert len(reply._request_id) == 24 and reply.id.startswith("chatcmpl-") and reply.system_fingerprint


@test
def streams_chats(client):
    whole = client.chat.completions.create(model="any", messages=ASK, temperature=0, max_tokens=10)
    text, reasons, usages = "", [], []
    for chunk in client.chat.completions.create(
        model="any", messages=ASK, temperature=0, max_tokens=10, stream=True, stream_options={"include_usage": True}
    ):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reasons.append(choice.finish_reason)
        if chunk.usage:
            usages.append(chunk.usage)
    assert text == whole.choices[0].message.content
    assert [reason for reason in reasons if reason] == [whole.choices[0].finish_reason]
    assert len(usages) == 1 and usages[0].completion_tokens == whole.usage.completion_tokens
    assert usages[0].prompt_tokens_details.cached_tokens == usages[0].prompt_tokens - 1


@test
def the_stream_helper_puts_the_same_message_together(client):
    with client.chat.completions.stream(model="any", messages=ASK, temperature=0, max_tokens=10, n=2) as stream:
        for _ in stream:
            final = stream.current_completion_snapshot
    whole = client.chat.completions.create(model="any", messages=ASK, temperature=0, max_tokens=10)
    assert [choice.message.role for choice in final.choices] == ["assistant", "assistant"]
    assert {choice.message.content for choice in final.choices} == {whole.choices[0].message.content}


@test
def reads_logprobs(client):
    reply = client.chat.completions.create(
        model="any", messages=ASK, temperature=0, max_tokens=5, logprobs=True, top_logprobs=3
    )
    content = reply.choices[0].logprobs.content
    assert "".join(token.token for token in content).startswith(reply.choices[0].message.content)
    assert all(len(token.top_logprobs) == 3 and token.logprob <= 0 for token in content)
    assert all(token.top_logprobs[0].token == token.token for token in content)


@test
def completes(client):
    reply = client.completions.create(model="any", prompt="The capital of France is", max_tokens=6, temperature=0, logprobs=2)
    choice = reply.choices[0]
    assert choice.text and len(choice.logprobs.tokens) == len(choice.logprobs.token_logprobs) == reply.usage.completion_tokens
    pieces = client.completions.create(
        model="any", prompt="The capital of France is", max_tokens=6, temperature=0, stream=True
    )
    assert "".join(chunk.choices[0].text for chunk in pieces) == choice.text


@test
def a_stream_that_is_closed_early_frees_its_place(client):
    stream = client.completions.create(model="any", prompt="a", max_tokens=4000, stream=True, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    assert server.wait_until(lambda state: state["running"] == 0, 10) is not None


@test
def errors_are_typed_exceptions(client):
    def raised(kind, **arguments):
        try:
            client.chat.completions.create(**{"model": "any", "messages": ASK, **arguments})
        except kind as error:
            return error
        raise AssertionError(f"no {kind.__name__} for {arguments}")

    error = raised(openai.BadRequestError, temperature=3)
    assert (error.param, error.code, error.type) == ("temperature", "invalid_value", "invalid_request_error")
    error = raised(openai.BadRequestError, messages=[{"role": "user", "content": "word " * 9000}])
    assert error.code == "context_length_exceeded" and error.param == "messages"
    error = raised(openai.BadRequestError, messages=[{"role": "user", "content": "word " * 9000}], stream=True)
    assert error.code == "context_length_exceeded"
    error = raised(openai.BadRequestError, tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}])
    assert error.param == "tools"
    try:
        client.models.retrieve("no/such")
        raise AssertionError("a model that is not there")
    except openai.NotFoundError as not_found:
        assert not_found.code == "model_not_found"


@test
def a_server_that_is_gone_is_a_connection_error(_):
    with Server("--context", "256", "--kv-memory", "64MiB") as other:
        url = other.url
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    try:
        client.models.list()
        raise AssertionError("no error")
    except openai.APIConnectionError:
        pass


if __name__ == "__main__":
    with Server("--kv-memory", "512MiB") as server:
        sys.exit(_harness.run(openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)))
