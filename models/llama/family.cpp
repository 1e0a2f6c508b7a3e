#include "models/llama/family.h"

#include "models/decoder/parts.h"
#include "models/llama/config.h"

namespace ft::llama {
namespace {

MadeModel make(const std::string& config_json, DType dtype) {
  const Config c = read_config(config_json);
  return decoder::make_model(decoder::make_parts(c, dtype), c);
}

}  // namespace

const Family kFamily{.make = make, .gguf = make_gguf, .from_gguf = config_of_gguf};

}  // namespace ft::llama
