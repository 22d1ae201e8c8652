"""The requests of a load, made from a seed: every endpoint, greedy and seeded, with shared beginnings, several choices,
lists of prompts, stop strings, log probabilities, and some that must be refused."""
import dataclasses
import random

WORDS = ("apple tree river stone cloud seven blue quick lazy winter engine paper lamp music green salt north cat window "
         "bread garden horse star ocean winter table small bright quiet happy seed water road house night").split()


@dataclasses.dataclass(frozen=True)
class Sizes:
    """In words; a word is one token of a real tokenizer and about six of the tiny model's."""
    beginnings: tuple[int, ...]
    words_max: int
    tokens_max: int
    huge_words: int      # with huge_tokens more than a small pool holds, and less than the context
    huge_tokens: int
    context_tokens: int


TINY = Sizes(beginnings=(0, 2, 4, 7), words_max=4, tokens_max=48, huge_words=10, huge_tokens=170, context_tokens=256)
REAL = Sizes(beginnings=(0, 30, 120, 250), words_max=60, tokens_max=64, huge_words=500, huge_tokens=900,
             context_tokens=8192)


class Catalogue:
    def __init__(self, sizes: Sizes, count: int, seed: int):
        self.sizes = sizes
        self.random = random.Random(seed)
        self.beginnings = [self.words(length) for length in sizes.beginnings for _ in range(2)]
        self.requests = [self.request() for _ in range(count)]
        # What a server with a small pool refuses, and what each refuses.
        self.requests += [self.huge() for _ in range(max(2, count // 25))]
        self.requests += [self.too_long() for _ in range(max(2, count // 50))]

    def words(self, count: int) -> str:
        return " ".join(self.random.choice(WORDS) for _ in range(count))

    def prompt(self) -> str:
        return f"{self.random.choice(self.beginnings)} {self.words(self.random.randint(1, self.sizes.words_max))}".strip()

    def request(self) -> dict:
        return self.random.choice((self.chat, self.chat, self.completion, self.generate))()

    def sampling(self) -> dict:
        r = self.random
        if r.random() < 0.5:
            fields = {"temperature": 0}
        else:
            fields = {"temperature": r.choice((0.7, 1.0, 1.5)), "top_p": r.choice((1, 0.9)), "seed": r.randrange(1 << 31)}
        if r.random() < 0.2:
            fields["frequency_penalty"] = r.choice((-0.5, 0.5))
        if r.random() < 0.2:
            fields["repetition_penalty"] = 1.1
        if r.random() < 0.2:
            fields["stop"] = [r.choice("aeiou") + r.choice("nrst")]
        if r.random() < 0.5:
            fields["ignore_eos"] = True
        return fields

    def shared_fields(self) -> dict:
        fields = {"priority": self.random.randint(-2, 2)}
        if self.random.random() < 0.2:
            fields["cache_salt"] = self.random.choice("xy")
        return fields

    def tokens(self) -> int:
        return self.random.randint(1, self.sizes.tokens_max)

    def choices(self) -> int:
        return self.random.choice((1, 1, 1, 1, 2, 3, 4))

    def chat(self) -> dict:
        body = {"messages": [{"role": "user", "content": self.prompt()}], "max_tokens": self.tokens(),
                "n": self.choices()} | self.sampling() | self.shared_fields()
        if self.random.random() < 0.2:
            body |= {"logprobs": True, "top_logprobs": 2}
        return {"path": "/v1/chat/completions", "body": body}

    def completion(self) -> dict:
        prompts = [self.prompt() for _ in range(self.random.choice((1, 1, 1, 3)))]
        body = {"prompt": prompts if len(prompts) > 1 else prompts[0], "max_tokens": self.tokens(),
                "n": self.choices() if len(prompts) == 1 else 1} | self.sampling() | self.shared_fields()
        if self.random.random() < 0.2:
            body["logprobs"] = 2
        return {"path": "/v1/completions", "body": body}

    def generate(self) -> dict:
        sampling = self.sampling()
        if "seed" in sampling:
            sampling["sampling_seed"] = sampling.pop("seed")
        body = {"text": self.prompt(), "sampling_params": sampling | {"max_new_tokens": self.tokens()}}
        if self.random.random() < 0.3:
            body |= {"return_logprob": True, "logprob_start_len": self.random.choice((-1, 0, 3))}
        return {"path": "/generate", "body": body}

    def huge(self) -> dict:
        return {"path": "/v1/completions", "huge": True,
                "body": {"prompt": self.words(self.sizes.huge_words), "max_tokens": self.sizes.huge_tokens,
                         "temperature": 0}}

    def too_long(self) -> dict:
        return {"path": "/v1/completions", "refused": True,
                "body": {"prompt": self.prompt(), "max_tokens": self.sizes.context_tokens, "temperature": 0}}
