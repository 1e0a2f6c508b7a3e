#include "data/tokenizers/json/token_decoder.h"

#include <algorithm>
#include <optional>

#include "data/files/utf8.h"
#include "data/tokenizers/json/byte_level.h"
#include "data/tokenizers/json/metaspace.h"
#include "data/tokenizers/patterns.h"

namespace ft {
namespace {

std::string join(const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

class ByteLevelDecoder : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) bytes += from_byte_level(token).value_or(token);
    tokens = {lossy_utf8(bytes)};
  }
};

class MetaspaceDecoder : public TokenDecoder {
 public:
  explicit MetaspaceDecoder(Metaspace settings) : settings_(std::move(settings)) {}
  void apply(std::vector<std::string>& tokens) const override {
    const bool prepended = settings_.prepend != Metaspace::Prepend::never;
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replaced(tokens[i], settings_.replacement, i == 0 && prepended ? "" : " ");
  }

 private:
  Metaspace settings_;
};

class ReplaceDecoder : public TokenDecoder {
 public:
  ReplaceDecoder(Regex pattern, std::string to) : pattern_(std::move(pattern)), to_(std::move(to)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) token = replaced(token, pattern_, to_);
  }

 private:
  Regex pattern_;
  std::string to_;
};

// Joins neighbouring tokens such as <0x0A> to the text of their bytes; if it is not UTF-8, to U+FFFD for each
// byte.
class ByteFallbackDecoder : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto flush = [&] {
      if (is_utf8(bytes)) {
        if (!bytes.empty()) out.push_back(bytes);
      } else {
        out.insert(out.end(), bytes.size(), std::string(kReplacement));
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const auto byte = byte_of(token)) {
        bytes.push_back(*byte);
        continue;
      }
      flush();
      out.push_back(std::move(token));
    }
    flush();
    tokens = std::move(out);
  }

 private:
  static std::optional<char> byte_of(const std::string& token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
    const auto is_hex = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    };
    if (!is_hex(token[3]) || !is_hex(token[4])) return std::nullopt;
    return static_cast<char>(std::stoi(token.substr(3, 2), nullptr, 16));
  }
};

class FuseDecoder : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens) const override { tokens = {join(tokens)}; }
};

// Removes up to `start` and `stop` copies of a character from the ends of each token.
class StripDecoder : public TokenDecoder {
 public:
  StripDecoder(std::string what, std::int64_t start, std::int64_t stop)
      : what_(std::move(what)), start_(start), stop_(stop) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      for (std::int64_t i = 0; i < start_ && token.starts_with(what_); ++i) token.erase(0, what_.size());
      for (std::int64_t i = 0; i < stop_ && token.ends_with(what_); ++i)
        token.resize(token.size() - what_.size());
    }
  }

 private:
  std::string what_;
  std::int64_t start_, stop_;
};

void add(const JsonObject& object, std::vector<std::unique_ptr<TokenDecoder>>& to) {
  const std::string type = object.text("type");
  if (type == "Sequence") {
    for (const JsonObject& part : object.objects("decoders")) add(part, to);
  } else if (type == "ByteLevel") {
    to.push_back(std::make_unique<ByteLevelDecoder>());
  } else if (type == "Metaspace") {
    to.push_back(std::make_unique<MetaspaceDecoder>(read_metaspace(object)));
  } else if (type == "Replace") {
    to.push_back(std::make_unique<ReplaceDecoder>(read_pattern(object, "pattern"), object.text("content")));
  } else if (type == "ByteFallback") {
    to.push_back(std::make_unique<ByteFallbackDecoder>());
  } else if (type == "Fuse") {
    to.push_back(std::make_unique<FuseDecoder>());
  } else if (type == "Strip") {
    const std::string what = object.text("content");
    if (what.empty() || utf8_length(what, 0) != what.size()) object.refuse("content", "one character");
    to.push_back(std::make_unique<StripDecoder>(what, object.integer("start", 0), object.integer("stop", 0)));
  } else {
    object.refuse("type",
                  "one of ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip, Sequence: ft knows these "
                  "decoders");
  }
}

}  // namespace

std::vector<std::unique_ptr<TokenDecoder>> read_token_decoders(const JsonObject& tokenizer) {
  std::vector<std::unique_ptr<TokenDecoder>> all;
  if (tokenizer.has("decoder")) add(tokenizer.object("decoder"), all);
  return all;
}

std::string lossy_utf8(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size();) {
    std::size_t n = utf8_length(bytes, i);
    if (n > 0) {
      text += bytes.substr(i, n);
    } else {
      // Find the longest beginning of a valid character.
      static constexpr std::string_view kTail = "\x80\xBF";
      for (n = 1; n < 4 && i + n < bytes.size(); ++n) {
        const std::string head(bytes.substr(i, n + 1));
        const auto completes = [&](char tail) { return utf8_length(head + std::string(3, tail), 0) > n; };
        if (std::none_of(kTail.begin(), kTail.end(), completes)) break;
      }
      text += kReplacement;
    }
    i += n;
  }
  return text;
}

}  // namespace ft
