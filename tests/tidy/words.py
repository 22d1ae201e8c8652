"""Words that do not belong where they stand."""
import re

from tree import Finding, Tree

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|not implemented yet|unimplemented!|todo!\(", re.I)
# The project speaks of itself, not of where or how it was made.
ELSEWHERE = re.compile(r"/work/|\bissue #\d|\bsubagent\b|\bthis workplace\b|\bas an AI\b|/opt/(ref|peer|mlx|w)\b")
MODEL_NAMES = re.compile(r"llama|qwen|gemma|mistral|deepseek|gpt_?oss|hunyuan|smollm|phi[34]|flux|whisper|parakeet", re.I)
MODEL_FREE = ("src/layers/", "src/engine/", "src/kvpool/", "src/kvcache/", "src/scheduler/")
VAGUE = re.compile(r"\b(?:class|struct|enum class|enum|using)\s+(\w*(?:Manager|Helper|Helpers|Util|Utils|Impl|Data|Base)"
                   r"|(?:do|process)_\w+)\b(?!\s*::)")
VAGUE_FUNCTION = re.compile(r"^[\w:<>&*\s]*\b((?:do_|process_)\w+)\s*\([^;]*\)\s*(?:const\s*)?[{;]\s*$")
ENVIRONMENT = re.compile(r"\b(?:std::)?(?:secure_)?(getenv|setenv|putenv|unsetenv|environ)\b")
# g++ 12 destroys what such an expression holds too early: a server crashed at its end.
AWAIT_IN_CONDITION = re.compile(r"\b(?:if|while|switch|for)\s*\(.*\bco_await\b|(?:&&|\|\||\?)\s*!?co_await\b")
# Files whose business is to name the words that are banned.
ABOUT_WORDS = ("tests/tidy/",)


def matches(tree: Tree, names: list[str], pattern: re.Pattern, rule: str, why: str) -> list[Finding]:
    return [Finding(rule, name, number, f"'{match[0].strip()}': {why}")
            for name in names for number, line in enumerate(tree.lines(name), 1)
            if (match := pattern.search(line))]


def check_words(tree: Tree) -> list[Finding]:
    text = [name for name in tree.text() if not name.startswith(ABOUT_WORDS)]
    code = [name for name in text if not name.endswith(".md")]
    return (matches(tree, code, UNFINISHED, "unfinished", "do it, or refuse it with a clear error") +
            matches(tree, text, ELSEWHERE, "elsewhere", "the project speaks of itself alone") +
            matches(tree, [n for n in tree.cpp(*MODEL_FREE) if not n.endswith("_test.cpp")], MODEL_NAMES, "model-name",
                    "a model's name belongs into models/"))


def check_names(tree: Tree) -> list[Finding]:
    names = tree.cpp()
    return (matches(tree, names, VAGUE, "vague-name", "say what it is") +
            matches(tree, names, VAGUE_FUNCTION, "vague-name", "say what it does"))


def check_environment(tree: Tree) -> list[Finding]:
    names = [n for n in tree.cpp("src/") if not n.endswith("_test.cpp")]
    return matches(tree, names, ENVIRONMENT, "getenv", "only apps/ reads the environment")


def check_coroutines(tree: Tree) -> list[Finding]:
    return matches(tree, tree.cpp(), AWAIT_IN_CONDITION, "await-in-condition", "name the result first")
