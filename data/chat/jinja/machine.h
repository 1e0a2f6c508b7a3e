// One rendering's state: its limits, variables, output, and the line that is being evaluated.
#pragma once
#include <ctime>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/jinja/object.h"
#include "data/chat/jinja/value.h"

namespace ft::jinja {

// What is wrong with a template, or what it says itself with raise_exception.
struct Error : std::runtime_error {
  Error(int at, const std::string& what) : std::runtime_error(what), line(at) {}
  int line;  // of the template, from 1
};

struct Limits {
  std::int64_t steps = 1'000'000;               // nodes evaluated, and 64 bytes written count as one
  std::int64_t bytes = std::int64_t{16} << 20;  // of values that live at a time
  int depth = 1500;                             // of nodes and calls within one another
};
inline constexpr int kDeepestValue = 200;  // lists in lists

struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> variables{};
};

class Machine;

// Text that grows; what it holds counts.
class Writer {
 public:
  explicit Writer(Machine& m);
  void add(std::string_view text);
  void add(std::size_t count, char c);
  const std::string& text() const { return text_; }
  Value take(bool safe = false);

 private:
  Machine& m_;
  std::string text_;
  Charge charge_;
};

class Machine {
 public:
  Machine(const Limits& limits, std::time_t now, std::shared_ptr<Scope> variables);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  [[noreturn]] void fail(const std::string& what) const { throw Error(line_, what); }
  void step(std::int64_t count = 1);
  // For reading a text, and for looking for one text in another, which at worst compares all with all.
  void step_over(std::string_view text) { step(static_cast<std::int64_t>(text.size()) / 64); }
  void step_search(std::string_view in, std::string_view what) {
    step(static_cast<std::int64_t>((in.size() / 64 + 1) * (what.size() / 64 + 1)));
  }
  // Before something of that size is made.
  void check_room(std::int64_t bytes) const;

  Value text(std::string bytes, bool safe = false);
  Value list(std::vector<Value> items, ListKind kind = ListKind::list);
  Value dict(Dict dict);
  Value generator(std::vector<Value> items);
  Value object(std::shared_ptr<Object> object, std::int64_t bytes = 64);
  Value make_namespace(Dict attributes);
  Charge charge(std::int64_t bytes);
  const Value* variable(std::string_view name);  // of this scope or one around it; null: there is none
  void set(std::string_view name, Value value);  // in this scope
  // A scope that a macro can come back to; it lives as long as the machine.
  void keep(const std::shared_ptr<Scope>& scope);

  // What a loop over the value gives. Fails where it cannot be looped over.
  Value::ListRef items_of(const Value& value);
  Value call(const Value& function, const Arguments& arguments);

  std::time_t now() const { return now_; }
  int line() const { return line_; }

  // One node's, or one call's, evaluation.
  class Level {
   public:
    Level(Machine& m, int line) : m_(m), line_(m.line_) {
      m.line_ = line;
      if (++m.depth_ > m.limits_.depth) {
        --m.depth_;
        m.fail("it goes too deep: nested, or calling itself, more than the limit allows");
      }
      m.step();
    }
    ~Level() {
      --m_.depth_;
      m_.line_ = line_;
    }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Machine& m_;
    int line_;
  };

  // Puts a scope, an output, in the place of the current one for as long as it lives.
  class Inner {
   public:
    Inner(Machine& m, std::shared_ptr<Scope> parent) : m_(m), scope_(m.scope) {
      m.scope = std::make_shared<Scope>(Scope{std::move(parent)});
    }
    explicit Inner(Machine& m) : Inner(m, m.scope) {}
    ~Inner() { m_.scope = std::move(scope_); }
    Inner(const Inner&) = delete;
    Inner& operator=(const Inner&) = delete;

   private:
    Machine& m_;
    std::shared_ptr<Scope> scope_;
  };
  class Aside {
   public:
    explicit Aside(Machine& m) : m_(m), writer_(m), out_(m.out) { m.out = &writer_; }
    ~Aside() { m_.out = out_; }
    Value take() { return writer_.take(); }
    const std::string& text() const { return writer_.text(); }
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;

   private:
    Machine& m_;
    Writer writer_;
    Writer* out_;
  };

  std::shared_ptr<Scope> scope;
  Writer* out = nullptr;

  // Blocks of {% generation %} in bytes of the whole text; not `placed` where a block's text went elsewhere
  // first.
  struct Generated {
    std::vector<std::pair<std::size_t, std::size_t>> blocks;
    bool placed = true;
  } generated;
  const Writer* top = nullptr;

 private:
  friend class Writer;
  Limits limits_;
  std::time_t now_;
  std::int64_t steps_ = 0, used_ = 0;
  int depth_ = 0, line_ = 1;
  std::vector<std::unique_ptr<Namespace>> namespaces_;
  std::vector<std::shared_ptr<Scope>> kept_;
};

}  // namespace ft::jinja
