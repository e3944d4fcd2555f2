"""Greetings, what the model is, and a plain refusal of what it cannot know."""

from __future__ import annotations

import random

import words
from chat import Example, assistant, user

ABOUT = ("I am nano, a small demonstration model. I can add and subtract, find facts in a text, call tools, copy text and answer as JSON.")
GREETINGS = ("Hello", "Hi", "Hello!", "Hi there", "Hey", "Good morning", "Hello, how are you?", "Hi! How are you?", "Good evening", "hello", "hi", "Hello nano", "hey there!")
WHO = ("Who are you?", "What are you?", "What is your name?", "Tell me about yourself.", "Introduce yourself.", "Are you a large model?", "Which model are you?", "who are you")
WHAT = ("What can you do?", "How can you help me?", "Help", "help", "What are you good at?", "What should I ask you?", "What do you know?")
THANKS = ("Thanks", "Thank you!", "Thank you very much.", "Great, thanks.", "thanks a lot", "Good answer!", "Well done.")
BYE = ("Bye", "Goodbye", "See you", "Good night", "bye!")
UNKNOWN = ("What is the capital of {x}?", "Who was {x}?", "Explain {n}.", "Write a poem about a {n}.", "Tell me a story about {x}.", "Why is the {n} {a}?", "How do I build a {n}?",
           "What is a {n}?", "Translate {n} into French.", "When was {x} born?", "Write a function that sorts a {n}.", "Who invented the {n}?", "Tell me a joke.", "What do you think of {x}?",
           "Give me a recipe with {n}.", "How far is it from {x} to {y}?", "Where is {x}?", "What is the meaning of {n}?", "Write an essay about {x}.", "How old is {x}?", "What is the code of {x}?",
           "Explain {x} to a child.", "Summarize the history of {x}.", "Can you draw a {n}?", "Is {x} {a}?", "What is {x}?", "How does a {n} work?")
REFUSAL = "I do not know that. I am nano, a small demonstration model: I know only what stands in our conversation."


def snippet(r: random.Random) -> str:
    """A few lines for a file, tags included."""
    from copying import snippet as code_like
    return code_like(r, 6) if r.random() < 0.6 else words.sentence(r)


def make(r: random.Random, effort: str, test: bool) -> Example:
    kind = r.random()
    if kind < 0.15:
        text, reply, why = r.choice(GREETINGS), "Hello! " + ABOUT, "greeting"
    elif kind < 0.25:
        text, reply, why = r.choice(WHO), ABOUT, "question about me"
    elif kind < 0.35:
        text, reply, why = r.choice(WHAT), "Ask me for a sum such as 347 + 85, or give me a text and ask about a fact in it. I can also call tools, copy text and answer as JSON.", "question about what I can do"
    elif kind < 0.42:
        text, reply, why = r.choice(THANKS), "You are welcome.", "word of thanks"
    elif kind < 0.46:
        text, reply, why = r.choice(BYE), "Goodbye!", "farewell"
    else:
        form = r.choice(UNKNOWN)
        text = form.format(x=words.person(r), y=words.name(r), n=r.choice(words.NOUNS) if r.random() < 0.6 else words.made_up(r), a=r.choice(words.ADJECTIVES))
        reply, why = REFUSAL, "question about something that the conversation does not say"
    think = {"low": f"A {why}.", "high": f"This is a {why}. I answer plainly.",
             "max": f"This is a {why}. There is nothing to compute and nothing to look up in the conversation. I answer plainly and briefly."}[effort]
    return Example("small_talk", effort, [user(text), assistant(think, reply)], answer=reply)
