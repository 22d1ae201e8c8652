// What the examples' buttons fill in.

export const TOOLS = `[
  {
    "type": "function",
    "function": {
      "name": "get_weather",
      "description": "The weather in a city",
      "parameters": {
        "type": "object",
        "properties": {
          "city": {"type": "string"},
          "days": {"type": "integer"}
        },
        "required": ["city"]
      }
    }
  }
]`;

export const SCHEMA = `{
  "type": "object",
  "properties": {
    "name": {"type": "string"},
    "colour": {"type": "string"},
    "sweetness": {"type": "integer"}
  },
  "required": ["name", "colour", "sweetness"],
  "additionalProperties": false
}`;

// Beginnings for an empty chat; `fill` is a field of the settings and what goes into it.
export const BEGINNINGS = [
  { title: 'Ask', prompt: 'Why do apples turn brown when they are cut?' },
  { title: 'Write', prompt: 'Write a haiku about an orchard in November.' },
  { title: 'Call a tool', prompt: 'What is the weather in Paris?', settings: { tools: TOOLS } },
  {
    title: 'Answer as JSON',
    prompt: 'Describe a Golden Delicious as JSON.',
    settings: { format: 'json_schema', schema: SCHEMA },
  },
];
