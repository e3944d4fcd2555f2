// A small text of our own, for the first merges of stand-in tokenizers: common words first, then prose, code
// and markup.
#include "text/standin_vocabulary.h"

namespace glint {

std::string_view standin_training_text() {
  return R"text( the of and to in a is that for it as was with be by on not he this are or his from at which but have an had they you were their one all we can her has there been if more when will would who so no out up said what its about into than them only other time new some could these two may first then do any like my now over such our man me even most made after also did many off before must through years where much your way well down should because each just those people how too little state good very make world still see own work long day get here between both life being under three never know same last while might us great old year come since against go came right used take states himself few house use during without again place around however home small found thought went say part once general high upon school every don't does got united left number course war until always away something fact water though less public put think almost hand enough far took head yet government system set better told nothing night end why called didn't eyes find going look asked later point knew next city business give group toward young days let room president side social given several order early national possible rather second face per among form important often things looked white case large big need four within felt children along saw best church ever least power development light thing seemed family interest want members mind country area others done turned although open service certain kind problem began different door thus help sense means whole matter question answer answers number numbers string value values true false null return function class const static void int float double char struct public private import from def self none print read write file files path name type list array object key keys index size count length data text token tokens model layer layers hidden weight weights attention expert experts cache batch prompt request response server client user assistant tool tools call calls argument arguments result error message messages content role stream chunk reason reasoning think thinking effort answer weather temperature city Paris Berlin London Tokyo hello Hello thanks please write explain show tell list describe summarize translate compare compute count story poem code example Example examples note Note first second third finally therefore however because step steps let's it's that's I'm you're we'll they've isn't can't won't
The quick answer is that a small model learns which letters stand together. When a word is common, it becomes one token; when it is rare, it stays in pieces. The same is true of spaces, of numbers such as 2024 or 3.14159, and of punctuation: commas, semicolons; colons - dashes, (parentheses), [brackets], {braces}, "quotes" and 'single quotes'.

What is the weather in Paris today? It is sunny, with a light wind from the west. How many planets are there? There are eight. Who wrote this text? Nobody in particular. Could you please explain how a computer works? A computer reads instructions, one after another, and does what they say. That is all there is to it, but it does so a thousand million times in a second.

I think that we should first look at the question. The user wants to know the number of words. Let me count them: one, two, three, four, five, six, seven, eight, nine, ten. So the answer is ten. Wait, let me check again. Yes, that is right.

# Heading
## Second heading
- first item
- second item
  - nested item
1. One
2. Two
3. Three

| name | value |
| --- | --- |
| alpha | 1 |

```python
import os
import sys
from pathlib import Path


def main(argv):
    """Read a file and print the number of lines."""
    path = Path(argv[1])
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    for index, line in enumerate(lines):
        if not line or line.startswith("#"):
            continue
        print(f"{index}: {line}")
    return 0


class Stack:
    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    def pop(self):
        if self.items is None:
            raise ValueError("empty")
        return self.items.pop()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
```

```cpp
#include <cstdint>
#include <string>
#include <vector>

namespace example {

template <class T>
int64_t sum(const std::vector<T>& values) {
  int64_t total = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    total += static_cast<int64_t>(values[i]);
  }
  return total;
}

}  // namespace example

int main(int argc, char** argv) {
  std::vector<int> values = {1, 2, 3};
  if (argc > 1 && argv[1] != nullptr) values.push_back(4);
  return example::sum(values) == 6 ? 0 : 1;
}
```

```json
{"name": "get_weather", "description": "Get the weather of a city.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}}
{"role": "user", "content": "Hello"}
{"id": 1, "ok": true, "error": null, "items": [1, 2, 3]}
```

```javascript
const url = "https://example.com/v1/chat/completions";
async function ask(text) {
  const response = await fetch(url, {method: "POST", body: JSON.stringify({text})});
  if (!response.ok) {
    throw new Error(`HTTP ${response.status}`);
  }
  return (await response.json()).choices[0].message.content;
}
```

<html>
<body>
<div class="main"><a href="/index.html">Home</a></div>
</body>
</html>

Das ist ein kurzer Satz auf Deutsch, und er ist nicht lang. Die Antwort ist ja. Le chat est sur la table, et il ne veut pas descendre. La respuesta es que no hay nada que hacer. Il libro che hai letto non e mio. Ik weet het niet, maar ik kan het wel vragen.
)text";
}

}  // namespace glint
