#include "models/gguf/gguf_key_reader.h"

#include <algorithm>
#include <cmath>

#include "engine/core/error.h"

namespace ft {

GgufKeyReader::GgufKeyReader(const GgufFile& file) : file_(file) {
  const GgufValue* v = file.find("general.architecture");
  const auto* name = v ? std::get_if<std::string>(v) : nullptr;
  if (!name) refuse("general.architecture is missing, or not a text");
  architecture_ = *name;
}

void GgufKeyReader::refuse(const std::string& what) const {
  throw UserError(Exit::input, str(printable(file_.path()), ": ", what));
}

std::string GgufKeyReader::text(const std::string& key) const {
  const GgufValue* v = file_.find(own(key));
  const auto* t = v ? std::get_if<std::string>(v) : nullptr;
  if (!t) refuse(own(key) + " is missing, or not a text");
  return *t;
}

std::int64_t GgufKeyReader::whole(const std::string& key) const {
  const double n = real(key);
  if (!(n >= 1 && n <= 1 << 30) || n != std::floor(n)) refuse(own(key) + " is not a positive whole number");
  return static_cast<std::int64_t>(n);
}

std::vector<std::int64_t> GgufKeyReader::number_list(const std::string& key) const {
  const GgufValue* v = file_.find(own(key));
  const auto* list = v ? std::get_if<std::vector<std::int32_t>>(v) : nullptr;
  if (!list) return {whole(key)};
  if (list->empty() || std::ranges::any_of(*list, [](std::int32_t n) { return n < 0; }))
    refuse(own(key) + " has entries below 0, or none");
  return {list->begin(), list->end()};
}

std::vector<std::int64_t> GgufKeyReader::whole_list(const std::string& key) const {
  std::vector<std::int64_t> all = number_list(key);
  if (std::ranges::find(all, 0) != all.end()) refuse(own(key) + " has entries below 1");
  return all;
}

double GgufKeyReader::real(const std::string& key) const {
  const GgufValue* v = file_.find(own(key));
  if (!v) refuse(own(key) + " is missing");
  const double x = number_of(*v, key);
  if (!std::isfinite(x)) refuse(own(key) + " is not finite");
  return x;
}

bool GgufKeyReader::flag_or(const std::string& key, bool otherwise) const {
  const GgufValue* v = file_.find(own(key));
  const bool* flag = v ? std::get_if<bool>(v) : nullptr;
  if (v && !flag) refuse(own(key) + " is neither true nor false");
  return flag ? *flag : otherwise;
}

std::optional<std::int64_t> GgufKeyReader::token_id(const std::string& role) const {
  const GgufValue* v = file_.find("tokenizer.ggml." + role + "_token_id");
  const auto* id = v ? std::get_if<std::uint32_t>(v) : nullptr;
  return id ? std::optional<std::int64_t>(*id) : std::nullopt;
}

const GgufTensor* GgufKeyReader::find_tensor(const std::string& name) const {
  const auto at = std::ranges::find(file_.tensors(), name, &GgufTensor::name);
  return at == file_.tensors().end() ? nullptr : &*at;
}

std::int64_t GgufKeyReader::vocab_size() const {
  const GgufTensor* table = find_tensor("token_embd.weight");
  if (!table || table->shape.size() != 2) refuse("it has no token_embd.weight");
  return table->shape[0];
}

double GgufKeyReader::number_of(const GgufValue& value, const std::string& key) const {
  if (const auto* list = std::get_if<std::vector<std::int32_t>>(&value)) {
    if (list->empty() || std::ranges::count(*list, list->front()) != std::ssize(*list))
      refuse(own(key) + " differs between layers, which ft does not have");
    return list->front();
  }
  return std::visit(
      [&](const auto& v) -> double {
        if constexpr (requires { static_cast<double>(v); })
          return static_cast<double>(v);
        else
          refuse(own(key) + " is not a number");
      },
      value);
}

}  // namespace ft
