// Formats texts: 'form' % values, and 'form'.format(values).
#include <algorithm>

#include "data/chat/jinja/builtins/filters.h"
#include "data/chat/jinja/expression.h"
#include "data/chat/jinja/print.h"
#include "engine/core/error.h"

namespace ft::jinja {
namespace {

constexpr std::int64_t kWidest = 100'000'000;

// Reads digits at form[at], and moves `at` after them.
std::int64_t number_at(std::string_view form, std::size_t& at) {
  std::int64_t v = 0;
  while (at < form.size() && form[at] >= '0' && form[at] <= '9')
    v = std::min(v * 10 + form[at++] - '0', kWidest);
  return v;
}

class Percent {
 public:
  Percent(Machine& m, const std::string& form, const Value& values) : m_(m), form_(form), values_(values) {
    const List* l = values.list();
    several_ = l && (l->kind == ListKind::tuple || l->kind == ListKind::group) ? l : nullptr;
  }

  Value write() {
    m_.step_over(form_);
    Writer out(m_);
    for (std::size_t at = 0; at < form_.size();) {
      const std::size_t sign = std::min(form_.find('%', at), form_.size());
      out.add(std::string_view(form_).substr(at, sign - at));
      at = sign + 1;
      if (sign < form_.size()) one(out, at);
    }
    const bool one = values_.text() || values_.is_none() || values_.is_number() || values_.object();
    if (several_ ? used_ < several_->items.size() : used_ == 0 && one)
      m_.fail("%: not all values are used by the format");
    return out.take();
  }

 private:
  Value next() {
    if (several_ ? used_ >= several_->items.size() : used_ > 0) m_.fail("%: too few values for the format");
    ++used_;
    return several_ ? several_->items[used_ - 1] : values_;
  }

  void one(Writer& out, std::size_t& at) {
    std::optional<Value> named;
    if (at < form_.size() && form_[at] == '(') {
      const std::size_t end = form_.find(')', at);
      if (end == std::string::npos || !values_.dict())
        m_.fail("%(name)s needs an object and a closing bracket");
      const std::string name = form_.substr(at + 1, end - at - 1);
      const Value* found = values_.dict()->find(name);
      if (!found) m_.fail("%: there is no " + printable(name, 40));
      named = *found;
      at = end + 1;
    }
    Form f;
    for (; at < form_.size() && std::string_view("-+ #0").find(form_[at]) != std::string_view::npos; ++at) {
      const char c = form_[at];
      if (c == '-') f.align = '<';
      if (c == '+' || (c == ' ' && f.sign != '+')) f.sign = c;
      if (c == '#') f.alternate = true;
      if (c == '0') f.fill = '0';
    }
    f.width = size(at);
    if (at < form_.size() && form_[at] == '.') f.precision = size(++at);
    if (at >= form_.size()) m_.fail("%: the format ends too early");
    f.type = form_[at++];
    if (f.type == '%') return out.add("%");
    write_one(out, named ? *named : next(), f);
  }

  std::int64_t size(std::size_t& at) {
    if (at >= form_.size() || form_[at] != '*') return number_at(form_, at);
    ++at;
    const auto v = next().integer();
    if (!v) m_.fail("%*d: the width must be an integer");
    return std::clamp<std::int64_t>(*v, 0, kWidest);
  }

  void write_one(Writer& out, const Value& value, Form f) {
    if (f.fill == '0' && !f.align) f.align = '=';
    if (f.align == '<') f.fill = ' ';
    if (f.type == 's' || f.type == 'r' || f.type == 'a') {
      if (f.align != '<') f.align = '>';
      f.fill = ' ';
      Writer text(m_);
      f.type == 's' ? write_str(m_, text, value) : write_repr(m_, text, value);
      f.type = 's';
      return write_formatted(m_, out, text.take(), f);
    }
    if (!value.is_number()) m_.fail(str("%", f.type, ": ", type_of(value), " is not a number"));
    if (!f.align) f.align = '>';
    if (f.type == 'i' || f.type == 'u') f.type = 'd';
    const auto* real = value.as<double>();
    if (f.type == 'd' && real && !(*real > -9.2e18 && *real < 9.2e18))
      m_.fail("%d: a number of more than 64 bits");
    const bool whole = f.type == 'd' && real;
    write_formatted(m_, out, whole ? Value(Value::Any(static_cast<std::int64_t>(*real))) : value, f);
  }

  Machine& m_;
  const std::string& form_;
  const Value& values_;
  const List* several_;
  std::size_t used_ = 0;
};

class Braces {
 public:
  Braces(Machine& m, const Arguments& arguments) : m_(m), arguments_(arguments) {}

  void write(Writer& out, std::string_view form) {
    const Machine::Level level(m_, m_.line());
    m_.step_over(form);
    for (std::size_t at = 0; at < form.size();) {
      const char c = form[at];
      if ((c == '{' || c == '}') && at + 1 < form.size() && form[at + 1] == c) {
        out.add(form.substr(at, 1));
        at += 2;
      } else if (c == '{') {
        const std::size_t end = closing(form, at);
        field(out, form.substr(at + 1, end - at - 1));
        at = end + 1;
      } else {
        if (c == '}') m_.fail("format: a } that closes nothing");
        out.add(form.substr(at, 1));
        ++at;
      }
    }
  }

 private:
  std::size_t closing(std::string_view form, std::size_t at) const {
    int open = 0;
    for (; at < form.size(); ++at) {
      open += (form[at] == '{') - (form[at] == '}');
      if (open == 0) return at;
    }
    m_.fail("format: a { that is not closed");
  }

  // Writes the field name!conversion:form.
  void field(Writer& out, std::string_view text) {
    const std::size_t colon = text.find(':');
    std::string_view name = text.substr(0, colon);
    Writer spec(m_);
    if (colon != std::string_view::npos) write(spec, text.substr(colon + 1));
    char conversion = 0;
    if (name.size() > 1 && name[name.size() - 2] == '!') {
      conversion = name.back();
      name.remove_suffix(2);
    }
    Value v = value(name);
    if (conversion == 'r' || conversion == 's') {
      Writer text_of(m_);
      conversion == 'r' ? write_repr(m_, text_of, v) : write_str(m_, text_of, v);
      v = text_of.take();
    } else if (conversion) {
      m_.fail("format: a conversion must be !r or !s");
    }
    write_formatted(m_, out, v, form_of(spec.text()));
  }

  // Returns the value of a field's name, such as 0.name[key].
  Value value(std::string_view name) {
    std::size_t at = std::min(name.find_first_of(".["), name.size());
    Value v = first(name.substr(0, at));
    while (at < name.size()) {
      const bool item = name[at] == '[';
      const std::size_t end =
          item ? name.find(']', at) : std::min(name.find_first_of(".[", at + 1), name.size());
      if (end == std::string_view::npos) m_.fail("format: a [ that is not closed");
      const std::string_view part = name.substr(at + 1, end - at - 1);
      v = item ? item_of(m_, v, key(part)) : attribute_of(m_, v, part);
      at = item ? end + 1 : end;
    }
    return v;
  }
  Value key(std::string_view part) {
    std::size_t at = 0;
    const std::int64_t number = number_at(part, at);
    return at == part.size() && at > 0 ? Value(Value::Any(number)) : m_.text(std::string(part));
  }
  Value first(std::string_view name) {
    std::size_t at = 0;
    const std::int64_t number = name.empty() ? next_++ : number_at(name, at);
    if (at == name.size()) {
      if (number >= std::ssize(arguments_.values)) m_.fail("format: too few values");
      return arguments_.values[static_cast<std::size_t>(number)];
    }
    for (const auto& [known, value] : arguments_.named)
      if (known == name) return value;
    m_.fail("format: there is no " + printable(name, 40));
  }

  Form form_of(std::string_view spec) const {
    Form f;
    std::size_t at = 0;
    const auto is = [&](std::size_t i, std::string_view set) {
      return i < spec.size() && set.find(spec[i]) != std::string_view::npos;
    };
    if (is(1, "<>=^")) {
      f.fill = spec[0];
      f.align = spec[1];
      at = 2;
    } else if (is(0, "<>=^")) {
      f.align = spec[at++];
    }
    if (is(at, "+- ")) f.sign = spec[at++];
    if (is(at, "#")) f.alternate = ++at;
    if (is(at, "0")) {
      ++at;
      if (!f.align) {
        f.fill = '0';
        f.align = '=';
      }
    }
    f.width = number_at(spec, at);
    if (is(at, ",_")) f.group = spec[at++];
    if (is(at, ".")) f.precision = number_at(spec, ++at);
    if (at < spec.size()) f.type = spec[at++];
    if (at < spec.size()) m_.fail("format: ft cannot read the form " + printable(spec, 40));
    return f;
  }

  Machine& m_;
  const Arguments& arguments_;
  std::int64_t next_ = 0;
};

}  // namespace

Value percent_format(Machine& m, const std::string& form, const Value& values) {
  return Percent(m, form, values).write();
}

Value brace_format(Machine& m, const std::string& form, const Arguments& arguments) {
  Writer out(m);
  Braces(m, arguments).write(out, form);
  return out.take();
}

}  // namespace ft::jinja
