// libFuzzer: any bytes as a chat template. It is rendered or refused, within its limits.
#include <nlohmann/json.hpp>

#include "data/chat/jinja/template.h"
#include "engine/files/json.h"
#include "tests/fuzz/input.h"

namespace {

const char* const kMessages = R"([
  {"role": "system", "content": "Be kind.\n"},
  {"role": "user", "content": [{"type": "text", "text": "Two plus two?"}]},
  {"role": "assistant", "content": null, "tool_calls": [
    {"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": 2.5}}}]},
  {"role": "tool", "name": "add", "content": "4"},
  {"role": "assistant", "content": "<think>hm</think>\u00c7a fait 4 \ud83d\udc4d",
   "reasoning_content": "hm"}])";
const char* const kTools = R"([{"type": "function", "function": {"name": "add", "description": "Adds.",
  "parameters": {"type": "object",
                 "properties": {"a": {"type": ["number", "null"], "default": 1.0}}}}}])";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using ft::jinja::Value;
  static const ft::jinja::Template::Variables variables{{"messages", Value::of(ft::Json::parse(kMessages))},
                                                        {"tools", Value::of(ft::Json::parse(kTools))},
                                                        {"documents", Value::of(nullptr)},
                                                        {"add_generation_prompt", Value::Any(true)},
                                                        {"bos_token", Value::text("<s>")},
                                                        {"eos_token", Value::text("</s>")}};
  const ft::jinja::Limits small{.steps = 20'000, .bytes = 1 << 20, .depth = 400};
  ft::fuzz::read_within(size, [&] {
    try {
      (void)ft::jinja::Template(ft::fuzz::text_of(data, size)).render(variables, 1'700'000'000, small);
    } catch (const ft::jinja::Error&) {
    }
  });
  return 0;
}
