// A chat template: Jinja as transformers sets it up, in a sandbox of its own. It reads nothing but what it is
// given, and its steps, depth and memory are limited, so that a hostile one ends in an Error.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/chat/jinja/machine.h"

namespace ft::jinja {

struct Rendering {
  std::string text;
  // The bytes that {% generation %} blocks wrote; nothing where there is no such block, or one stands in a
  // macro or set block, so that its place in the text is not known.
  std::vector<std::pair<std::size_t, std::size_t>> generated;
  bool marks = false;  // `generated` says what the model writes
};

class Template {
 public:
  explicit Template(std::string_view source);  // throws an Error where it is no template
  Template(Template&&) noexcept;
  ~Template();

  bool generates() const;  // there is a {% generation %}

  using Variables = std::vector<std::pair<std::string, Value>>;
  // Throws an Error, also for raise_exception. May be called from several threads.
  Rendering render(const Variables& variables, std::time_t now, const Limits& limits = {}) const;

 private:
  struct Parsed;
  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace ft::jinja
