#include "data/chat/jinja/safe.h"

#include "data/chat/jinja/print.h"
#include "engine/core/error.h"

namespace ft::jinja {
namespace {

class SafeMethod final : public Function {
 public:
  using Function::Function;
  Value call(Machine& m, const Arguments& arguments) override {
    return marked_safe(m, Function::call(m, arguments));
  }
};

}  // namespace

Value marked_safe(Machine& m, const Value& value) {
  if (value.is_safe()) return value;
  if (const std::string* t = value.text()) return m.text(*t, true);
  if (!value.list()) return value;
  std::vector<Value> items;
  for (const Value& item : value.list()->items) items.push_back(marked_safe(m, item));
  return m.list(std::move(items), value.list()->kind);
}

Value escaped(Machine& m, const Value& value) {
  if (value.is_safe()) return value;
  Writer out(m);
  for (const char c : str_of(m, value)) {
    if (c == '&')
      out.add("&amp;");
    else if (c == '<')
      out.add("&lt;");
    else if (c == '>')
      out.add("&gt;");
    else if (c == '\'')
      out.add("&#39;");
    else if (c == '"')
      out.add("&#34;");
    else
      out.add(1, c);
  }
  return out.take(true);
}

Value safe_method(Machine& m, std::string_view name, Function::Body body, const Value& self) {
  for (const std::string_view escapes : {"format", "join", "replace"})
    if (name == escapes) m.fail(str("the method ", name, " of a text that is marked safe is not supported"));
  return m.object(std::make_shared<SafeMethod>(std::string(name), body, self));
}

}  // namespace ft::jinja
