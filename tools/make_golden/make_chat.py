"""Goldens of chat templates: what the reference library renders from real templates.

    ./dev golden chat [TEMPLATES [OUT]]

TEMPLATES holds *.jinja files; with OUT, every one is rendered into that folder, else the ones below into tests/golden.
Without TEMPLATES, those of the committed goldens are rendered again."""

import copy
import datetime
import json
import pathlib
import sys

import jinja2
import transformers
from transformers.utils.chat_template_utils import _normalize_chat_messages, render_jinja_template

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "chat"
KEPT = {
    "Qwen-Qwen2.5-7B-Instruct": "qwen2.5",
    "Qwen-Qwen3-0.6B": "qwen3",
    "Qwen3.5-4B": "qwen3.5",
    "meta-llama-Llama-3.1-8B-Instruct": "llama3.1",
    "meta-llama-Llama-3.2-3B-Instruct": "llama3.2",
    "google-gemma-2-2b-it": "gemma2",
    "gemma3": "gemma3",
    "smollm2": "smollm2",
    "deepseek_v3": "deepseek_v3",
    "mistralai-Mistral-Nemo-Instruct-2407": "mistral_nemo",
    "microsoft-Phi-3.5-mini-instruct": "phi3.5",
    "openai-gpt-oss-120b": "gpt_oss",
    "tencent-Hy3": "hunyuan3",
}
SPECIAL = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather <now> & \"then\", it's déjà vu",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "City, e.g. Praha"},
                "days": {"type": "integer", "default": 1, "minimum": 0.5},
                "unit": {"type": "string", "enum": ["C", "F"]},
            },
            "required": ["city"],
        },
    },
}
USER = {"role": "user", "content": "Hi there"}
SYSTEM = {"role": "system", "content": "  Be brief.\n"}
ANSWER = {"role": "assistant", "content": "Hello!\n\nHow can I help?"}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "call12345", "type": "function",
         "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2, "x": None, "y": [True, 1.5]}}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "call12345", "name": "get_weather", "content": '{"t": 21.0, "sky": "☀️"}'}
THOUGHT = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes."}

CASES = [
    {"messages": [USER]},
    {"messages": [USER], "add_generation_prompt": False},
    {"messages": [SYSTEM, USER]},
    {"messages": [SYSTEM, USER, ANSWER, {"role": "user", "content": "And\tnow? <|im_end|> ☀️"}]},
    {"messages": [USER, THOUGHT, USER]},
    {"messages": [USER, {**ANSWER, "reasoning_content": "thinking…"}, USER]},
    {"messages": [USER], "tools": [WEATHER]},
    {"messages": [SYSTEM, USER], "tools": [WEATHER, WEATHER]},
    {"messages": [USER, CALL, RESULT], "tools": [WEATHER]},
    {"messages": [USER, CALL, RESULT, ANSWER, USER], "tools": [WEATHER]},
    {"messages": [USER], "kwargs": {"enable_thinking": False}},
    {"messages": [USER], "kwargs": {"enable_thinking": True}},
    {"messages": [USER, ANSWER], "continue_final_message": True},
    {"messages": [USER, {"role": "assistant", "content": "The answer is  "}], "continue_final_message": True},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "Part one."}]}], "parts": True},
    {"messages": [USER, ANSWER, ANSWER]},
    {"messages": [ANSWER, USER]},
]


def render(template, case):
    messages = _normalize_chat_messages(copy.deepcopy(case["messages"]))
    kwargs = {**SPECIAL, **case.get("kwargs", {})}
    going_on = case.get("continue_final_message", False)
    rendered, _ = render_jinja_template(
        [messages], tools=case.get("tools"), chat_template=template, continue_final_message=going_on,
        add_generation_prompt=case.get("add_generation_prompt", True) and not going_on, **kwargs)
    text = rendered[0]
    if "strftime_now" in template:
        for form in ("%Y-%m-%d", "%d %b %Y", "%B %d, %Y", "%d %B %Y"):
            text = text.replace(datetime.datetime.now().strftime(form), f"@TODAY {form}@")
    return text


def takes_parts(template):
    """A template that only knows strings prints the list of parts, quotation marks and all."""
    try:
        text = render(template, {"messages": [{"role": "user", "content": [{"type": "text", "text": "pome asks"}]}]})
    except Exception:
        return False
    return "pome asks" in text and "'type'" not in text and '"type"' not in text


def committed():
    return {stem: json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))["template"]
            for stem, name in KEPT.items()}


def given(folder):
    return {p.stem: p.read_text(encoding="utf-8") for p in sorted(folder.rglob("*.jinja"))}


def main():
    sources = given(pathlib.Path(sys.argv[1])) if len(sys.argv) > 1 else committed()
    out = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else GOLDEN
    out.mkdir(parents=True, exist_ok=True)
    for stem, template in sources.items():
        if out == GOLDEN and stem not in KEPT:
            continue
        cases = []
        for case in CASES:
            if case.get("parts") and not takes_parts(template):
                continue
            try:
                cases.append({**case, "text": render(template, case)})
            except (jinja2.TemplateError, ValueError, TypeError) as error:
                cases.append({**case, "error": str(error)[:200]})
        name = KEPT.get(stem, stem)
        golden = {"name": name, "special_tokens": SPECIAL, "template": template, "cases": cases}
        path = out / f"{name}.json"
        path.write_text(json.dumps(golden, ensure_ascii=True, indent=1) + "\n", encoding="utf-8")
        print(path, path.stat().st_size, sum("error" in c for c in cases), "refused")
    if out == GOLDEN:
        (out / "ORIGIN").write_text(
            "made by    tools/make_golden/make_chat.py\n"
            f"reference  transformers {transformers.__version__}, jinja2 {jinja2.__version__}, "
            f"Python {sys.version.split()[0]}\n"
            "sources    the models' own chat templates, as their publishers distribute them\n"
            "what       prompts rendered by the reference; \"error\" where it refuses\n")


if __name__ == "__main__":
    main()
