"""Random JSON schemas of what src/text/grammar/schema_check.cc lets pass in its strict form."""

import random

WORDS = ["a", "id", "name", "x y", "größe", "tags", "run", "run_in", "path", "k1", "k2", "über_all", "q\"uote", "b\\s"]


class Schemas:
    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def value(self, depth: int = 1):
        kind = self.random.randrange(7 if depth > 0 else 5)
        return [lambda: None, lambda: self.random.choice([True, False]), lambda: self.random.randrange(-50, 50),
                lambda: self.random.choice([0.5, -2.25, 1e3]), lambda: self.random.choice(WORDS),
                lambda: [self.value(0) for _ in range(self.random.randrange(3))],
                lambda: {self.random.choice(WORDS): self.value(0)}][kind]()

    def string(self) -> dict:
        pick = self.random.randrange(8)
        if pick == 0:
            return {"type": "string", "pattern": self.random.choice(["^[a-z]{2,5}$", "^(ab|cd)+$", "^\\d{3}-\\d{2}$", "^[A-F0-9]*$"])}
        if pick == 1:
            low = self.random.randrange(4)
            return {"type": "string", "minLength": low, "maxLength": low + self.random.randrange(6)}
        if pick == 2:
            return {"type": "string", "format": self.random.choice(["date", "date-time", "time", "uuid", "ipv4"])}
        if pick == 3:
            return {"type": "string", "maxLength": self.random.choice([1, 3, 8, 40, 100])}
        if pick == 4:
            return {"type": "string", "minLength": self.random.randrange(1, 5), "maxLength": self.random.choice([50, 5000])}
        return {"type": "string"}

    def integer(self) -> dict:
        schema = {"type": "integer"}
        low = self.random.randrange(-300, 300)
        if self.random.randrange(3) == 0:
            schema["minimum"] = low
        if self.random.randrange(3) == 0:
            schema["exclusiveMaximum" if self.random.randrange(2) else "maximum"] = low + self.random.randrange(2, 4000)
        return schema

    def number(self) -> dict:
        schema = {"type": "number"}
        low = round(self.random.uniform(-20, 20), self.random.randrange(3))
        if self.random.randrange(3) == 0:
            schema["minimum"] = low
        if self.random.randrange(3) == 0:
            schema["maximum"] = low + self.random.randrange(1, 100)
        return schema

    def array(self, depth: int) -> dict:
        schema = {"type": "array", "items": self.schema(depth - 1)}
        if self.random.randrange(2):
            schema["minItems"] = self.random.randrange(3)
            schema["maxItems"] = schema["minItems"] + self.random.randrange(3)
        if self.random.randrange(5) == 0:
            return {"type": "array", "prefixItems": [self.schema(depth - 1), self.schema(depth - 1)], "items": False, "minItems": 2}
        return schema

    def object(self, depth: int) -> dict:
        names = self.random.sample(WORDS, self.random.randrange(5))
        schema = {"type": "object", "properties": {name: self.schema(depth - 1) for name in names},
                  "required": [name for name in names if self.random.randrange(2)]}
        more = self.random.randrange(4)
        if more < 2:
            schema["additionalProperties"] = [False, self.schema(depth - 1)][more]
        if more > 0 and self.random.randrange(4) == 0:
            schema["required"].append("undeclared")
        return schema

    def schema(self, depth: int = 3) -> dict:
        pick = self.random.randrange(12)
        if depth > 0:
            if pick < 3:
                return self.object(depth)
            if pick < 5:
                return self.array(depth)
            if pick == 5:
                return {"anyOf": [self.schema(depth - 1) for _ in range(self.random.randrange(1, 4))]}
        if pick == 6:
            return {"enum": [self.value() for _ in range(self.random.randrange(1, 5))]}
        if pick == 7:
            return {"const": self.value()}
        if pick == 8:
            return {"type": self.random.sample(["null", "boolean", "integer", "string"], self.random.randrange(1, 4))}
        return [self.string, self.integer, self.number, self.string, lambda: {"type": "boolean"},
                lambda: {"type": "null"}][self.random.randrange(6)]()

    def root(self) -> dict:
        """An object with definitions that are referred to, one of them by itself."""
        schema = self.object(3)
        schema["$defs"] = {"leaf": self.schema(1),
                           "tree": {"type": "object", "properties": {"leaf": {"$ref": "#/$defs/leaf"},
                                                                     "next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}},
                                    "required": ["next"], "additionalProperties": False}}
        if self.random.randrange(2):
            schema["properties"]["tree"] = {"$ref": "#/$defs/tree"}
        return schema

    def tool(self, name: str) -> dict:
        parameters = self.root()
        parameters.pop("additionalProperties", None)
        if self.random.randrange(8) == 0:
            parameters = None
        function = {"name": name, "parameters": parameters}
        return {"type": "function", "function": function}
