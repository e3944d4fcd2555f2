"""The words that the training data is made of, and generators of names, codes and identifiers that nobody has seen."""

from __future__ import annotations

import random

NOUNS = """anchor apple basket bell bench bicycle blanket boat book bottle bowl box bridge brush bucket button cabin camera candle
card carpet castle chain chair chest clock cloud coat coin comb compass cup curtain desk diary door dress drum engine farm
feather fence field flag flute forest fountain garden gate glass glove guitar hammer harbor hat helmet hill house island jacket
jar kettle key kite kitchen knife ladder lake lamp lantern leaf letter library lighthouse lock map market mask mill mirror
museum necklace needle net notebook oven painting paper pencil piano picture pillow pipe plate pocket pond poster puzzle
quilt radio ribbon ring river road robot rocket roof rope saddle sail scarf school shelf ship shoe shovel soap spoon stable
stamp station statue stone stove suitcase sweater table tent ticket tower train tree trumpet tunnel umbrella vase violin
wagon wallet watch wheel whistle window""".split()

ADJECTIVES = """amber big black blue brave bright broken brown calm clean clever cold copper curved dark dry dusty empty fast flat
fresh gentle gold gray green happy heavy hidden hollow iron kind large light little long loud new noisy old orange pale
pink plain polished proud purple quick quiet red round rusty sharp shiny short silent silver slow small smooth soft square
strong sweet tall thin tiny violet warm wet white wide wild wooden yellow young""".split()

VERBS_PAST = """bought broke built carried cleaned closed counted drew dropped fixed found followed gave held hid kept left lifted
liked lost made moved opened painted passed picked pulled pushed read repaired saw sent sold stored took touched used visited
washed watched wrapped wrote""".split()

PLACES = """attic barn basement bakery balcony bank cafe cellar church closet corner courtyard factory gallery garage hall hospital
hotel kitchen lobby mill office park pantry port shop square stadium street studio theater village workshop yard""".split()

COLORS = """red blue green yellow orange purple pink brown black white gray silver gold violet""".split()
DAYS = """Monday Tuesday Wednesday Thursday Friday Saturday Sunday""".split()
MONTHS = """January February March April May June July August September October November December""".split()

KNOWN = """Tom Anna Maria Peter John Mary Lisa Max Emma Paul Laura James Sarah David Julia Alice Bob Carol Dave Eve Frank Grace Berlin Paris London
Tokyo Rome Madrid Vienna Oslo Prague Boston Chicago Dublin Lisbon Athens Beijing Sydney Munich Cairo Lima""".split()

_ONSET = "b bl br c ch d dr f fl g gr h j k kl l m n p pr qu r s sh st t th tr v w z".split()
_VOWEL = "a e i o u ai ea ia io ou".split()
_CODA = ["", "", "", "l", "m", "n", "r", "s", "t", "nd", "x", "rk"]


_ACCENTS = str.maketrans("aeiounc", "äéíöüñç")
_SCRIPTS = ("абвгдежзиклмнопрст", "αβγδεζηθικλμνξοπρστ", "日月山川田中人大小木水火土金", "あいうえおかきくけこさしすせそ")


def syllable(r: random.Random) -> str:
    return r.choice(_ONSET) + r.choice(_VOWEL) + r.choice(_CODA)


def made_up(r: random.Random) -> str:
    """A pronounceable word in lower case."""
    word = "".join(syllable(r) for _ in range(r.choice((1, 2, 2, 2, 3))))
    k = r.random()
    if k < 0.02:
        return word.translate(_ACCENTS)
    if k < 0.025:
        script = r.choice(_SCRIPTS)
        return "".join(r.choice(script) for _ in range(r.randint(2, 4)))
    return word


def name(r: random.Random) -> str:
    return r.choice(KNOWN) if r.random() < 0.12 else made_up(r).capitalize()


def person(r: random.Random) -> str:
    return name(r) if r.random() < 0.5 else name(r) + " " + name(r)


def thing(r: random.Random) -> str:
    k = r.random()
    if k < 0.4:
        return r.choice(ADJECTIVES) + " " + r.choice(NOUNS)
    return r.choice(NOUNS) if k < 0.7 else made_up(r)


def integer(r: random.Random, digits_max: int = 4) -> int:
    """Lengths are equally likely."""
    digits = r.randint(1, digits_max)
    return r.randint(10 ** (digits - 1) if digits > 1 else 0, 10 ** digits - 1)


def decimal(r: random.Random) -> float:
    """One or two decimals, never integral, so that every reader prints it as it was said."""
    part = r.randint(1, 9) / 10 if r.random() < 0.5 else (10 * r.randint(0, 9) + r.randint(1, 9)) / 100
    return round(integer(r, 3) + part, 2)


def code(r: random.Random) -> str:
    """K7-PX42, or qv83, or B-1047."""
    letters = "ABCDEFGHJKLMNPQRSTUVWXYZ"
    kind = r.random()
    if kind < 0.35:
        return "".join(r.choice(letters) for _ in range(r.randint(1, 3))) + "-" + str(r.randint(10, 9999))
    if kind < 0.7:
        return "".join(r.choice(letters + "0123456789") for _ in range(r.randint(4, 8)))
    return "".join(r.choice("abcdefghijkmnpqrstuvwxyz0123456789") for _ in range(r.randint(4, 8)))


def snake(r: random.Random) -> str:
    return "_".join(r.choice(NOUNS) if r.random() < 0.8 else made_up(r) for _ in range(r.choice((1, 1, 2))))


def path(r: random.Random) -> str:
    ext = r.choice(("txt", "py", "md", "json", "html", "csv", "cc", "log"))
    return "/".join(snake(r) for _ in range(r.choice((0, 1, 2))) ) + ("/" if r.random() < 0.3 else "") + snake(r) + "." + ext


def sentence(r: random.Random) -> str:
    """One sentence about nothing."""
    kind = r.randrange(5)
    who = name(r) if r.random() < 0.5 else "the " + r.choice(ADJECTIVES) + " " + r.choice(NOUNS)
    what = r.choice(("a ", "the ")) + r.choice(ADJECTIVES) + " " + r.choice(NOUNS)
    if kind == 0:
        text = f"{who} {r.choice(VERBS_PAST)} {what} in the {r.choice(PLACES)}"
    elif kind == 1:
        text = f"{what} stood near the {r.choice(PLACES)} on {r.choice(DAYS)}"
    elif kind == 2:
        text = f"in {r.choice(MONTHS)} {who} {r.choice(VERBS_PAST)} {integer(r, 3)} of them"
    elif kind == 3:
        text = f"{who} and {name(r)} {r.choice(VERBS_PAST)} {what}"
    else:
        text = f"the {r.choice(NOUNS)} was {r.choice(ADJECTIVES)} and {r.choice(ADJECTIVES)}"
    return text[0].upper() + text[1:] + "."
