#include "app/samples/tokenize.h"

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/config/config.h"
#include "app/config/gguf_base.h"
#include "data/files/row_reader.h"
#include "engine/files/json.h"

namespace ft {
namespace {

const std::string kInput = "standard input";

// Reads the next line without its line feed. Keeps at most kLongestRow bytes.
bool read_line(std::istream& in, std::string& line, const Place& at) {
  line.clear();
  std::string part(std::size_t{1} << 16, '\0');
  while (in.getline(part.data(), static_cast<std::streamsize>(part.size())) || in.gcount() > 0) {
    const bool whole = !in.fail();  // fails if the buffer holds no line feed
    const auto count = static_cast<std::size_t>(in.gcount()) - (whole && !in.eof() ? 1 : 0);
    line.append(part.data(), count);
    if (static_cast<std::int64_t>(line.size()) > kLongestRow)
      at.fail(str("more than ", kLongestRow >> 20, " MiB"));
    if (whole) return true;
    in.clear();
  }
  return !line.empty();
}

Tokenizer::Ids ids_of(const Json& value, const Place& at) {
  Tokenizer::Ids ids;
  if (!value.is_array()) at.fail("must be a list of token ids, is " + json_excerpt(value));
  for (const Json& v : value) {
    const auto id = v.is_number_integer() ? v.get<std::int64_t>() : -1;
    if (id < 0 || id > INT32_MAX) at.fail("must be a list of token ids, has " + json_excerpt(v));
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

Json answer(const Tokenizer& tokenizer, const TokenizeOptions& options, const Json& value, const Place& at) {
  if (options.decode) {
    const Tokenizer::Ids ids = ids_of(value, at);
    for (const std::int32_t id : ids)
      if (id >= tokenizer.size())
        at.fail(str("there is no token ", id, "; the tokenizer has 0 to ", tokenizer.size() - 1));
    return tokenizer.decode(ids, options.skip_special_tokens);
  }
  if (!value.is_string()) at.fail("must be a string in quotes, is " + json_excerpt(value));
  const auto& text = value.get_ref<const std::string&>();
  return options.no_special_tokens ? tokenizer.encode(text) : tokenizer.encode_with_specials(text);
}

}  // namespace

void tokenize(const Tokenizer& tokenizer, const TokenizeOptions& options, std::istream& in,
              std::ostream& out) {
  std::string line;
  for (Place at{&kInput, 1}; read_line(in, line, at); ++at.line) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (line.find('\0') != std::string::npos) at.fail("not JSON: a zero byte");
    const Json value =
        parse_json(line, {kInput, at.line}, {.max_bytes = static_cast<std::size_t>(kLongestRow)});
    out << json_text(answer(tokenizer, options, value, at), -1) << '\n';
  }
  out.flush();
  if (!out) throw UserError(Exit::storage, "standard output: cannot be written");
}

void tokenize_command(const TokenizeOptions& options) {
  if (options.decode && options.no_special_tokens)
    throw UserError(Exit::config,
                    "--no-special-tokens is for encoding; with --decode there is --skip-special-tokens");
  if (!options.decode && options.skip_special_tokens)
    throw UserError(Exit::config,
                    "--skip-special-tokens is for --decode; when encoding there is --no-special-tokens");
  BaseModelConfig model{.model_name_or_path = options.model};
  // A folder stays as it is: it may be an adapter's, which no run would take as its base.
  if (std::error_code none; std::filesystem::is_regular_file(options.model, none)) prepare_base(model);
  tokenize(*make_tokenizer(model.unpacked ? model.folder() : options.model), options, std::cin, std::cout);
}

}  // namespace ft
