"""What the prefix cache promises, seen by clients of the real server: hits to the token, the same bits warm and cold, a
growing conversation that computes only what is new, and one computation of what many clients share.

Prints the figures that it checks, so that a run can be quoted."""
import random
import sys
import threading

from _harness import Server, run, test, test_of_words

BLOCK = 32
WORDS = "river stone cloud paper green seven quiet north market letter bridge winter copper garden signal harbor".split()


def words(count, seed):
    rnd = random.Random(seed)
    return " ".join(rnd.choice(WORDS) for _ in range(count))


def usage(body):
    return body["usage"]["prompt_tokens"], body["usage"]["prompt_tokens_details"]["cached_tokens"]


def ask_ids(server, ids, **more):
    return server.ok("/v1/completions", {"prompt": ids, "temperature": 0, "max_tokens": 1, "logprobs": 5, **more})


@test
def a_chat_sent_twice_is_cached_but_for_one_token(server):
    body = {"messages": [{"role": "user", "content": "Tell me of " + words(60, 1)}], "temperature": 0, "max_tokens": 24,
            "logprobs": True, "top_logprobs": 5}
    first, second = server.ok("/v1/chat/completions", body), server.ok("/v1/chat/completions", body)
    prompt, cached = usage(second)
    assert cached == prompt - 1, (prompt, cached)
    assert first["choices"] == second["choices"], "the replies or their log-probabilities differ"
    print(f"  sent twice: {prompt} prompt tokens, {cached} cached, {len(first['choices'][0]['logprobs']['content'])} equal positions")


@test
def every_length_is_cached_but_for_one_token(server):
    rnd = random.Random(7)
    for length in range(2, 3 * BLOCK + 2):
        ids = [rnd.randrange(1000, 40000) for _ in range(length)]
        replies = [ask_ids(server, ids) for _ in range(3)]
        assert usage(replies[0]) == (length, 0), (length, usage(replies[0]))
        for reply in replies[1:]:
            assert usage(reply) == (length, length - 1), (length, usage(reply))
            assert reply["choices"] == replies[0]["choices"], length
    print(f"  lengths 2 to {3 * BLOCK + 1}, three times each: all hits are length - 1, all log-probabilities equal")


@test
def a_one_token_prompt_is_answered(server):
    for _ in range(3):
        assert usage(ask_ids(server, [777])) == (1, 0)


@test_of_words
def ten_turns_compute_only_what_is_new(server):
    messages = [{"role": "system", "content": "You are terse. " + words(200, 3)}]
    known = 0
    print("  turn  prompt  cached  computed   new")
    for turn in range(10):
        messages.append({"role": "user", "content": f"Turn {turn}: " + words(25, 100 + turn)})
        body = {"messages": messages, "temperature": 0, "max_tokens": 20}
        count = server.ok("/tokenize", {"messages": messages})["count"]
        reply = server.ok("/v1/chat/completions", body)
        prompt, cached = usage(reply)
        assert prompt == count
        new = prompt - known
        print(f"  {turn:4d}  {prompt:6d}  {cached:6d}  {prompt - cached:8d}  {new:4d}")
        # All that was sent and generated before is in the cache, but for the last token drawn: it was never computed.
        assert prompt - cached == max(new, 1) or turn == 0, (turn, prompt, cached, known)
        text = reply["choices"][0]["message"]["content"]
        messages.append({"role": "assistant", "content": text})
        known = prompt + reply["usage"]["completion_tokens"] - 1


def all_at_once(tasks):
    results, failures = [None] * len(tasks), []

    def work(index):
        try:
            results[index] = tasks[index]()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results


@test
def sixteen_clients_share_one_computation(_):
    system = words(960, 5)
    bodies = [
        {"messages": [{"role": "system", "content": system}, {"role": "user", "content": f"{i}: " + words(8, i)}],
         "temperature": 0, "max_tokens": 16, "logprobs": True, "top_logprobs": 3}
        for i in range(16)
    ]
    with Server() as together:
        replies = all_at_once([lambda b=b: together.ok("/v1/chat/completions", b) for b in bodies])
    prompts, hits = zip(*(usage(reply) for reply in replies))
    computed = sum(prompts) - sum(hits)
    shared = min(hit for hit in hits if hit > 0)
    own = sum(prompt - shared for prompt in prompts)
    print(f"  16 clients, {shared} shared tokens: {sum(prompts)} prompt tokens, {computed} computed ({shared} once + {own} of their own)")
    assert sorted(hits)[0] == 0 and sorted(hits)[1] > 900, sorted(hits)
    assert computed <= shared + own, (computed, shared, own)
    with Server("--no-prefix-cache", "--max-sequences", "1") as alone:
        for body, reply in zip(bodies, replies):
            single = alone.ok("/v1/chat/completions", body)
            assert usage(single)[1] == 0
            assert single["choices"] == reply["choices"], "a reply differs from the one computed alone"


def main():
    with Server() as server:
        return run(server)


if __name__ == "__main__":
    sys.exit(main())
