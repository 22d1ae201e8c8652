#pragma once

#include "text/reading/reader.h"
#include "text/reading/task.h"
#include "text/tool_parsers/parts/call_sink.h"

namespace pome::text {

// One dialect each: reads a whole output, and puts content and calls into `out`. What is not a call
// after all is content, mark included.

// <tool_call>{"name": …, "arguments": {…}}</tool_call>
Task<void> read_hermes(Reader& in, CallSink& out);
// <tool_call><function=name><parameter=key>text</parameter></function></tool_call>; without the
// outer tag for a declared function
Task<void> read_qwen3_coder(Reader& in, CallSink& out);
// <|python_tag|>{"name": …, "parameters": {…}}; without the tag where the output is such objects
Task<void> read_llama3(Reader& in, CallSink& out);
// [TOOL_CALLS][{"name": …, "arguments": {…}}] or [TOOL_CALLS]name[ARGS]{…}
Task<void> read_mistral(Reader& in, CallSink& out);
// [name(key=value), …] at the beginning of a line, or between <|python_start|> and <|python_end|>
Task<void> read_pythonic(Reader& in, CallSink& out);
// <｜tool▁call▁begin｜>function<｜tool▁sep｜>name, then the arguments fenced as json
Task<void> read_deepseekv3(Reader& in, CallSink& out);
// <｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}<｜tool▁call▁end｜>
Task<void> read_deepseekv31(Reader& in, CallSink& out);
// <|channel|>commentary to=functions.name<|message|>{…}<|call|>
Task<void> read_gpt_oss(Reader& in, CallSink& out);
// <tool_calls><tool_call>name<tool_sep><arg_key>…, or <tool_calls>[{"name": …, "arguments": {…}}]
Task<void> read_hunyuan(Reader& in, CallSink& out);
// <tool_call>name<arg_key>key</arg_key><arg_value>text</arg_value></tool_call>
Task<void> read_glm45(Reader& in, CallSink& out);
// <|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}<|tool_call_end|>
Task<void> read_kimi_k2(Reader& in, CallSink& out);
// <|tool_call>call:name{key:<|"|>text<|"|>}<tool_call|>, its forerunner with <start_function_call>,
// and fenced tool_code
Task<void> read_gemma(Reader& in, CallSink& out);

}  // namespace pome::text
