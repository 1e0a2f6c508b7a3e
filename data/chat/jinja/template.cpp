#include "data/chat/jinja/template.h"

#include "data/chat/jinja/parser.h"
#include "data/files/utf8.h"

namespace ft::jinja {

struct Template::Parsed {
  Body body;
  bool generates = false;
};

Template::Template(std::string_view source) {
  if (!is_utf8(source)) throw Error(1, "it is not UTF-8");
  Parser parser(tokens_of(source));
  auto parsed = std::make_unique<Parsed>();
  parsed->body = parser.parse();
  parsed->generates = parser.generates();
  parsed_ = std::move(parsed);
}

Template::Template(Template&&) noexcept = default;
Template::~Template() = default;
bool Template::generates() const { return parsed_->generates; }

Rendering Template::render(const Variables& variables, std::time_t now, const Limits& limits) const {
  const auto given = std::make_shared<Scope>(Scope{nullptr, variables});
  Machine m(limits, now, std::make_shared<Scope>(Scope{given}));
  Writer out(m);
  m.out = &out;
  m.top = &out;
  run(m, parsed_->body);
  const bool marks = parsed_->generates && m.generated.placed;
  Rendering rendering{out.text(), {}, marks};
  if (marks) rendering.generated = std::move(m.generated.blocks);
  return rendering;
}

}  // namespace ft::jinja
