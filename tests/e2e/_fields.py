"""The request fields of api.md A.1 and A.2 (and what vLLM, SGLang and llama.cpp add) as the tests of fields_test.py see
them: what is to be done with each, what it may be, and, for a field that is implemented, how its effect shows.

Written by hand from the documents, not taken from the server's own tables: the two are compared."""
import dataclasses
import typing

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
BOTH = (CHAT, COMPLETIONS)

IMPLEMENT, HINT, REFUSE = "implement", "hint", "refuse"
KINDS = {
    "bool": (True, False),
    "whole": (1, 0),
    "number": (0.5, -1.5),
    "string": ("a", ""),
    "array": ([], [{"a": 1}]),
    "object": ({}, {"a": 1}),
}


@dataclasses.dataclass
class Row:
    name: str
    act: str
    kinds: str  # words of KINDS
    paths: tuple = BOTH
    low: typing.Any = None  # both ends are allowed ...
    high: typing.Any = None
    open_low: bool = False  # ... but for this one
    default: typing.Any = None  # sent, it means the same as absent
    extra: dict = dataclasses.field(default_factory=dict)  # what must be sent besides
    good: tuple = ()  # accepted
    bad: tuple = ()  # a 400 that names the field
    refused: tuple = ()  # REFUSE only: what asks for something


def implement(name, kinds, **more):
    return Row(name, IMPLEMENT, kinds, **more)


def hint(name, kinds, **more):
    return Row(name, HINT, kinds, **more)


def refuse(name, *refused, harmless=(), paths=BOTH):
    return Row(name, REFUSE, " ".join(KINDS), paths=paths, refused=refused, good=harmless)


MESSAGES = [{"role": "user", "content": "Tell me about the sea."}]
FUNCTION = {"name": "f", "parameters": {"type": "object", "properties": {}}}

ROWS = [
    # ---- OpenAI ----
    implement("model", "string", good=("any name", "org/model"), bad=("m" * 257,)),
    implement("messages", "array", paths=(CHAT,),
              bad=([], [1], [{}], [{"role": "user"}], [{"role": "a", "content": "b"}])),
    implement("stream", "bool", default=False),
    implement("stream_options", "object", extra={"stream": True}, good=({}, {"include_obfuscation": False},
              {"include_usage": None, "continuous_usage_stats": True}), bad=({"include_usage": 1},)),
    implement("max_tokens", "whole", low=0, extra={"stop": " "}, good=(3.0, 32000, 2**63 - 1), bad=(1.5, 1e30)),
    implement("max_completion_tokens", "whole", low=0, extra={"stop": " "}, good=(3.0, 32000), bad=(1.5,)),
    implement("temperature", "number whole", low=0, high=2, default=1),
    implement("top_p", "number whole", low=0, high=1, open_low=True, default=1),
    implement("frequency_penalty", "number whole", low=-2, high=2, default=0),
    implement("presence_penalty", "number whole", low=-2, high=2, default=0),
    implement("seed", "whole", low=-(2**63), high=2**63 - 1, good=(0, 5.0), bad=(1.5,)),
    implement("n", "whole", low=1, high=128, default=1, good=(2.0,), bad=(1.5,)),
    implement("stop", "string array", good=([], ["zzz"] * 16, "zzz"), bad=("", [""], [1], [None], ["zzz"] * 17)),
    implement("logit_bias", "object", default={}, good=({"0": -100, "5": 100.0},),
              bad=({"999999": 1}, {"-1": 1}, {"a": 1}, {"5": 101}, {"5": -100.5}, {"5": None}, {"5": "1"})),
    implement("logprobs", "bool", paths=(CHAT,), default=False),
    implement("top_logprobs", "whole", paths=(CHAT,), low=0, high=20, default=0, extra={"logprobs": True}, bad=(1.5,)),
    implement("logprobs", "whole", paths=(COMPLETIONS,), low=0, high=20, good=(5.0,), bad=(1.5,)),
    implement("reasoning_effort", "string", paths=(CHAT,), bad=("most", ""),
              good=("none", "minimal", "low", "medium", "high", "xhigh", "max")),
    implement("service_tier", "string", good=("auto", "default")),
    implement("prompt", "string array", paths=(COMPLETIONS,), good=("a", [1, 2.0], ["a", "b"], [[1], [2, 3]]),
              bad=("", [], [999999], [-1], [1, "a"], [1.5], ["a", [1]], [[1], []], ["a", ""], ["a"] * 1025)),
    implement("best_of", "whole", paths=(COMPLETIONS,), low=0, good=(1, 1.0), bad=(2, 1.5)),
    hint("user", "string"),
    hint("safety_identifier", "string"),
    hint("metadata", "object", good=({str(i): "a" for i in range(16)},), bad=({str(i): "a" for i in range(17)},)),
    hint("store", "bool"),
    hint("prediction", "object", good=({"type": "content", "content": "a"},)),
    hint("verbosity", "string", good=("low",)),
    hint("prompt_cache_key", "string"),
    hint("prompt_cache_options", "object", good=({"mode": "explicit", "ttl": "30m"},)),
    hint("prompt_cache_retention", "string", good=("24h",)),
    hint("parallel_tool_calls", "bool", paths=(CHAT,)),
    refuse("response_format", {"type": "json_object"},
           {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}, {"type": "poem"}, {}, harmless=({"type": "text"},)),
    refuse("tools", [{"type": "function", "function": FUNCTION}], [{"type": "custom"}], harmless=([],), paths=(CHAT,)),
    refuse("tool_choice", "required", "any", {"type": "function", "function": {"name": "f"}}, harmless=("none", "auto"),
           paths=(CHAT,)),
    refuse("functions", [FUNCTION], harmless=([],), paths=(CHAT,)),
    refuse("function_call", {"name": "f"}, "f", harmless=("none", "auto"), paths=(CHAT,)),
    refuse("audio", {"voice": "alloy", "format": "wav"}, paths=(CHAT,)),
    refuse("modalities", ["text", "audio"], ["audio"], harmless=(["text"],), paths=(CHAT,)),
    refuse("web_search_options", {}, paths=(CHAT,)),
    refuse("moderation", {}, paths=(CHAT,)),
    refuse("suffix", "a", harmless=("",), paths=(COMPLETIONS,)),
    # ---- vLLM, SGLang ----
    implement("top_k", "whole", low=-1, high=2**31 - 1, default=0, good=(-1, 40.0), bad=(1.5,)),
    implement("min_p", "number whole", low=0, high=1, default=0),
    implement("repetition_penalty", "number whole", low=0.001, high=100, default=1),
    implement("min_tokens", "whole", low=0, default=0, bad=(7, 1.5)),  # more than max_tokens
    implement("stop_token_ids", "array", default=[], good=([0, 5.0],), bad=([999999], [-1], ["1"], [1.5])),
    implement("ignore_eos", "bool", default=False),
    implement("include_stop_str_in_output", "bool", default=False),
    implement("skip_special_tokens", "bool", default=True),
    implement("return_token_ids", "bool", default=False),
    implement("add_generation_prompt", "bool", paths=(CHAT,), default=True),
    implement("continue_final_message", "bool", paths=(CHAT,), default=False),
    implement("chat_template_kwargs", "object", paths=(CHAT,), default={},
              bad=({"messages": []}, {"tools": []}, {"chat_template": "a"}, {"add_generation_prompt": True})),
    implement("add_special_tokens", "bool", paths=(COMPLETIONS,), default=True),
    hint("priority", "whole", bad=(1.5,)),
    hint("request_id", "string"),
    hint("spaces_between_special_tokens", "bool"),
    hint("kv_transfer_params", "object"),
    hint("length_penalty", "number whole"),
    hint("early_stopping", " ".join(KINDS)),
    hint("guided_decoding_backend", "string"),
    hint("guided_whitespace_pattern", "string"),
    hint("truncation_side", "string", good=("left",)),
    hint("include_reasoning", "bool", paths=(CHAT,)),
    hint("separate_reasoning", "bool", paths=(CHAT,)),
    hint("stream_reasoning", "bool", paths=(CHAT,)),
    hint("media_io_kwargs", "object", paths=(CHAT,)),
    hint("mm_processor_kwargs", "object", paths=(CHAT,)),
    implement("cache_salt", "string", good=("a",), bad=("", "a" * 1025)),
    implement("echo", "bool", paths=(COMPLETIONS,), default=False),
    refuse("echo", True, harmless=(False,), paths=(CHAT,)),
    refuse("structured_outputs", {"json": {}}),
    refuse("structural_tag", "a"),
    refuse("guided_json", {}),
    refuse("guided_regex", "a"),
    refuse("guided_choice", ["a"], harmless=([],)),
    refuse("guided_grammar", "a", harmless=("",)),
    refuse("regex", "a", harmless=("",)),
    refuse("ebnf", "a", harmless=("",)),
    refuse("stop_regex", "a", harmless=("",)),
    refuse("prompt_logprobs", 0, 5),
    refuse("prompt_embeds", "AAAA"),
    refuse("truncate_prompt_tokens", 10, harmless=(-1,)),
    refuse("use_beam_search", True, harmless=(False,)),
    refuse("bad_words", ["a"], harmless=([],)),
    refuse("allowed_token_ids", [1]),
    refuse("logits_processors", ["a"], harmless=([],)),
    refuse("vllm_xargs", {"a": 1}, harmless=({},)),
    refuse("return_tokens_as_token_ids", True, harmless=(False,)),
    refuse("repetition_detection", {}),
    refuse("lora_request", {}),
    refuse("documents", [{"text": "a"}], harmless=([],), paths=(CHAT,)),
    refuse("chat_template", "{{ messages }}", harmless=("",), paths=(CHAT,)),
    refuse("add_special_tokens", True, harmless=(False,), paths=(CHAT,)),
    refuse("thinking_token_budget", 100, harmless=(-1,), paths=(CHAT,)),
    # ---- llama.cpp and its kin ----
    hint("cache_prompt", "bool"),
    hint("id_slot", "whole"),
    hint("n_keep", "whole"),
    hint("timings_per_token", "bool"),
    hint("return_progress", "bool"),
    hint("mirostat_tau", "number whole"),
    hint("mirostat_eta", "number whole"),
    hint("dynatemp_exponent", "number whole"),
    hint("xtc_threshold", "number whole"),
    hint("dry_base", "number whole"),
    hint("dry_allowed_length", "whole"),
    hint("dry_penalty_last_n", "whole"),
    hint("dry_sequence_breakers", "array", good=(["\n"],)),
    hint("repeat_last_n", "whole"),
    refuse("n_predict", 10, harmless=(-1,)),
    refuse("n_probs", 5, harmless=(0,)),
    refuse("repeat_penalty", 1.1, harmless=(1, 1.0)),
    refuse("grammar", "root ::= a", harmless=("",)),
    refuse("json_schema", {}),
    refuse("typical", 0.5, harmless=(1,)),
    refuse("typical_p", 0.5, harmless=(1,)),
    refuse("tfs_z", 0.5, harmless=(1,)),
    refuse("top_a", 0.5, harmless=(0,)),
    refuse("top_n_sigma", 2, harmless=(-1,)),
    refuse("mirostat", 2, harmless=(0,)),
    refuse("mirostat_mode", 1, harmless=(0,)),
    refuse("dynatemp_range", 0.5, harmless=(0,)),
    refuse("xtc_probability", 0.5, harmless=(0,)),
    refuse("dry_multiplier", 0.8, harmless=(0,)),
    refuse("min_keep", 1, harmless=(0,)),
    refuse("samplers", ["top_k"], harmless=([],)),
    refuse("post_sampling_probs", True, harmless=(False,)),
    refuse("response_fields", ["content"], harmless=([],)),
    refuse("reasoning_format", "deepseek", harmless=("none", "auto")),
    refuse("lora", [{"id": 0, "scale": 1}], harmless=([],)),
]
