#include "app/translate/interpolate.h"

#include <nlohmann/json.hpp>

namespace ft::translate {
namespace {

constexpr std::size_t kLongest = 4096;  // bytes of a text after its references are replaced
constexpr int kDeepest = 16;            // references that lead to references

class Interpolation {
 public:
  explicit Interpolation(SettingsText& file) : file_(file), root_(file.value) {}

  void run() { walk(file_.value, ""); }

 private:
  [[noreturn]] void fail(const std::string& path, const std::string& what) const {
    const auto line = file_.lines.find(path);
    throw UserError(Exit::config, str(file_.name, line == file_.lines.end() ? "" : str(":", line->second),
                                      ": ", printable(path), ": ", what));
  }

  void walk(Json& at, const std::string& path) {
    if (at.is_string()) {
      at = resolved(at, path, 0);
    } else if (at.is_object()) {
      for (const auto& [key, value] : at.items()) walk(value, path.empty() ? key : path + "." + key);
    } else if (at.is_array()) {
      for (std::size_t i = 0; i < at.size(); ++i) walk(at[i], str(path, ".", i));
    }
  }

  // Returns the value of a dotted key.
  const Json& value_at(const std::string& name, const std::string& path) const {
    const Json* at = &root_;
    for (std::size_t begin = 0; begin <= name.size();) {
      const std::size_t dot = std::min(name.find('.', begin), name.size());
      if (!at->is_object() || !at->contains(name.substr(begin, dot - begin)))
        fail(path, str("${", printable(name), "} refers to no key"));
      at = &(*at)[name.substr(begin, dot - begin)];
      begin = dot + 1;
    }
    if (at->is_structured()) fail(path, str("${", printable(name), "} refers to more than a value"));
    return *at;
  }

  Json resolved(const Json& given, const std::string& path, int depth) const {
    std::string text = given;
    for (std::size_t at; (at = text.find("${")) != text.npos;) {
      if (depth++ > kDeepest) fail(path, "its references lead to each other");
      const std::size_t end = text.find('}', at);
      if (end == text.npos) fail(path, "${ without a }");
      const std::string name = text.substr(at + 2, end - at - 2);
      if (name.find_first_of(":${'") != name.npos)
        fail(path, str("${", printable(name, 40), "...: ft computes no expressions; write the value"));
      const Json& value = value_at(name, path);
      if (value.is_string() && value.get_ref<const std::string&>().size() > kLongest)
        fail(path, "its references make it too long");
      if (at == 0 && end + 1 == text.size()) return value.is_string() ? resolved(value, path, depth) : value;
      text.replace(at, end + 1 - at, value.is_string() ? value.get<std::string>() : value.dump());
      if (text.size() > kLongest) fail(path, "its references make it too long");
    }
    return text;
  }

  SettingsText& file_;
  const Json root_;  // the file before any replacement
};

}  // namespace

void interpolate(SettingsText& file) { Interpolation(file).run(); }

}  // namespace ft::translate
