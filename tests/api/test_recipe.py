"""The client snippets of the serving recipe, word for word but for host and port, against the small trained model.

Serve it as glm-5.3; what the snippets ask is nothing it knows, so only the shape of the answers counts.
"""

import json
import subprocess

PYTHON_EFFORTS = '''
from openai import OpenAI

client = OpenAI(api_key="EMPTY", base_url="http://localhost:8000/v1")
msgs = [{"role": "user", "content": "Summarize GLM-5.3 in one sentence."}]

# Think Max (default) — just omit reasoning_effort
client.chat.completions.create(model="glm-5.3", messages=msgs, max_tokens=4096)

# Think High / Think Low — explicitly request the effort level
client.chat.completions.create(
    model="glm-5.3",
    messages=msgs,
    max_tokens=4096,
    extra_body={"chat_template_kwargs": {"reasoning_effort": "low"}},
)
'''

CURL = r'''
curl http://localhost:8000/v1/chat/completions \
  -H "Content-Type: application/json" \
  -d '{
    "model": "glm-5.3",
    "messages": [{"role": "user", "content": "Summarize GLM-5.3 in one sentence."}],
    "temperature": 1,
    "max_tokens": 4096,
    "chat_template_kwargs": {"reasoning_effort": "high"}
  }'
'''

PYTHON_USAGE = '''
from openai import OpenAI

client = OpenAI(api_key="EMPTY", base_url="http://localhost:8000/v1")
response = client.chat.completions.create(
    model="glm-5.3",
    messages=[{"role": "user", "content": "Summarize GLM-5.3 in one sentence."}],
    temperature=1.0,
    max_tokens=256,
)
print(response.choices[0].message.content)
'''


def at(server, snippet: str) -> str:
    return snippet.replace("http://localhost:8000", server.url)


def test_efforts(nano):
    names = {}
    exec(at(nano, PYTHON_EFFORTS), names)
    assert names["client"].models.list().data[0].id == "glm-5.3"


def test_usage(nano, capsys):
    names = {}
    exec(at(nano, PYTHON_USAGE), names)
    choice = names["response"].choices[0]
    assert choice.finish_reason in ("stop", "length")
    assert capsys.readouterr().out == f"{choice.message.content}\n"


def test_curl(nano):
    done = subprocess.run(["bash", "-c", at(nano, CURL)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["model"] == "glm-5.3" and answer["choices"][0]["message"]["role"] == "assistant"
