// A chat template: Jinja with transformers' settings, in a sandbox. It can read only its variables. Its
// steps, depth and memory are limited, so that a hostile template ends in an Error.
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
  // Byte ranges that {% generation %} blocks wrote. Empty if there are no such blocks, or if one stands in a
  // macro or set block, so that its position in the text is not known.
  std::vector<std::pair<std::size_t, std::size_t>> generated;
  bool marks = false;  // `generated` tells which text the model writes
};

class Template {
 public:
  explicit Template(std::string_view source);  // throws Error if it is not a template
  Template(Template&&) noexcept;
  ~Template();

  bool generates() const;  // the template has {% generation %}

  using Variables = std::vector<std::pair<std::string, Value>>;
  // Renders the template. Throws Error, also for raise_exception. Several threads may call it at once.
  Rendering render(const Variables& variables, std::time_t now, const Limits& limits = {}) const;

 private:
  struct Parsed;
  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace ft::jinja
