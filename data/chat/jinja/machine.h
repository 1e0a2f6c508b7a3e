// State of one rendering: limits, variables, output, and the current line.
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

// An error in a template, or the message of its raise_exception.
struct Error : std::runtime_error {
  Error(int at, const std::string& what) : std::runtime_error(what), line(at) {}
  int line;  // line of the template, from 1
};

struct Limits {
  std::int64_t steps = 1'000'000;               // evaluated nodes; 64 written bytes count as one
  std::int64_t bytes = std::int64_t{16} << 20;  // memory of the living values
  int depth = 1500;                             // nesting of nodes and calls
};
inline constexpr int kDeepestValue = 200;  // lists in lists

struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> variables{};
};

class Machine;

// A growing text; its bytes are charged.
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
  // Count the steps of reading a text, and of searching one text in another, which at worst compares every
  // part of both.
  void step_over(std::string_view text) { step(static_cast<std::int64_t>(text.size()) / 64); }
  void step_search(std::string_view in, std::string_view what) {
    step(static_cast<std::int64_t>((in.size() / 64 + 1) * (what.size() / 64 + 1)));
  }
  // Fails if so many bytes would exceed the limit. Called before a value is made.
  void check_room(std::int64_t bytes) const;

  Value text(std::string bytes, bool safe = false);
  Value list(std::vector<Value> items, ListKind kind = ListKind::list);
  Value dict(Dict dict);
  Value generator(std::vector<Value> items);
  Value object(std::shared_ptr<Object> object, std::int64_t bytes = 64);
  Value make_namespace(Dict attributes);
  Charge charge(std::int64_t bytes);
  const Value* variable(std::string_view name);  // of this scope or an enclosing one; null: none
  void set(std::string_view name, Value value);  // in this scope
  // Keeps a scope, for macros that use it later, as long as the machine lives.
  void keep(const std::shared_ptr<Scope>& scope);

  // Returns the items of a loop over the value. Fails if it cannot be looped over.
  Value::ListRef items_of(const Value& value);
  Value call(const Value& function, const Arguments& arguments);

  std::time_t now() const { return now_; }
  int line() const { return line_; }

  // Evaluation of one node or one call.
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

  // Inner and Aside replace the current scope, and the current output, as long as they live.
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

  // Blocks of {% generation %} as byte ranges of the complete text. `placed` is false if a block's text was
  // written to another output first.
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
