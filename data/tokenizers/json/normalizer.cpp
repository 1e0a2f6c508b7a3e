#include "data/tokenizers/json/normalizer.h"

#include <cstdint>
#include <stdexcept>

#include "data/files/utf8.h"
#include "data/tokenizers/json/byte_level.h"
#include "data/tokenizers/json/charsmap.h"
#include "data/tokenizers/patterns.h"
#include "data/tokenizers/unicode.h"

namespace ft {
namespace {

class Form : public Normalizer {
 public:
  explicit Form(NormalForm form) : form_(form) {}
  void apply(std::string& text) const override { text = normal_form(text, form_); }

 private:
  NormalForm form_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string what) : what_(std::move(what)) {}
  void apply(std::string& text) const override {
    if (!text.empty()) text.insert(0, what_);
  }

 private:
  std::string what_;
};

class ReplaceText : public Normalizer {
 public:
  ReplaceText(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  void apply(std::string& text) const override { text = replaced(text, from_, to_); }

 private:
  std::string from_, to_;
};

class ReplacePattern : public Normalizer {
 public:
  ReplacePattern(Regex pattern, std::string to) : pattern_(std::move(pattern)), to_(std::move(to)) {}
  void apply(std::string& text) const override { text = replaced(text, pattern_, to_); }

 private:
  Regex pattern_;
  std::string to_;
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(std::string& text) const override {
    std::string_view rest = text;
    if (left_) rest = strip_left(rest);
    if (right_) rest = strip_right(rest);
    text = std::string(rest);
  }

 private:
  bool left_, right_;
};

class Precompiled : public Normalizer {
 public:
  explicit Precompiled(std::string_view table) : table_(table) {}
  void apply(std::string& text) const override { text = table_.normalize(text); }

 private:
  Charsmap table_;
};

class ToByteLevel : public Normalizer {
 public:
  void apply(std::string& text) const override {
    std::string out;
    append_byte_level(text, out);
    text = std::move(out);
  }
};

std::string from_base64(const JsonObject& object, std::string_view key) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text = object.text(key), bytes;
  if (text.size() % 4 != 0) object.refuse(key, "base64");
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.pop_back();
  std::uint32_t bits = 0;
  int count = 0;  // number of bits that are not written yet
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) object.refuse(key, "base64");
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 0xFF));
  }
  return bytes;
}

std::unique_ptr<Normalizer> read_precompiled(const JsonObject& object) {
  const std::string table = from_base64(object, "precompiled_charsmap");
  try {
    return make_precompiled(table);
  } catch (const std::invalid_argument& broken) {
    throw UserError(Exit::input, str(printable(object.file()), ": precompiled_charsmap ", broken.what()));
  }
}

std::unique_ptr<Normalizer> make_replace(const JsonObject& object) {
  const JsonObject pattern = object.object("pattern");
  if (pattern.has("String") && !pattern.text("String").empty())
    return std::make_unique<ReplaceText>(pattern.text("String"), object.text("content"));
  return std::make_unique<ReplacePattern>(read_pattern(object, "pattern"), object.text("content"));
}

void add(const JsonObject& object, std::vector<std::unique_ptr<Normalizer>>& to) {
  const std::string type = object.text("type");
  if (type == "Sequence") {
    for (const JsonObject& part : object.objects("normalizers")) add(part, to);
  } else if (type == "NFC") {
    to.push_back(std::make_unique<Form>(NormalForm::nfc));
  } else if (type == "NFD") {
    to.push_back(std::make_unique<Form>(NormalForm::nfd));
  } else if (type == "NFKC") {
    to.push_back(std::make_unique<Form>(NormalForm::nfkc));
  } else if (type == "NFKD") {
    to.push_back(std::make_unique<Form>(NormalForm::nfkd));
  } else if (type == "Prepend") {
    to.push_back(std::make_unique<Prepend>(object.text("prepend")));
  } else if (type == "Replace") {
    to.push_back(make_replace(object));
  } else if (type == "Strip") {
    to.push_back(std::make_unique<Strip>(object.boolean("strip_left"), object.boolean("strip_right")));
  } else if (type == "Precompiled") {
    to.push_back(read_precompiled(object));
  } else if (type == "ByteLevel") {
    to.push_back(std::make_unique<ToByteLevel>());
  } else {
    object.refuse(
        "type",
        "one of NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip, Precompiled, ByteLevel, Sequence: ft "
        "knows these normalizers");
  }
}

std::string table_in(const JsonObject& object) {
  const std::string type = object.text("type");
  if (type == "Precompiled") return from_base64(object, "precompiled_charsmap");
  if (type == "Sequence")
    for (const JsonObject& part : object.objects("normalizers"))
      if (std::string table = table_in(part); !table.empty()) return table;
  return "";
}

}  // namespace

std::string precompiled_table(const JsonObject& tokenizer) {
  return tokenizer.has("normalizer") ? table_in(tokenizer.object("normalizer")) : "";
}

std::unique_ptr<Normalizer> make_precompiled(std::string_view table) {
  return std::make_unique<Precompiled>(table);
}

std::vector<std::unique_ptr<Normalizer>> read_normalizers(const JsonObject& tokenizer) {
  std::vector<std::unique_ptr<Normalizer>> all;
  if (tokenizer.has("normalizer")) add(tokenizer.object("normalizer"), all);
  return all;
}

}  // namespace ft
