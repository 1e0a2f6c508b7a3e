#include "engine/files/json_lines.h"

#include <algorithm>
#include <vector>

#include "engine/files/json.h"

namespace ft {
namespace {

class Lines final : public JsonEvents {
 public:
  explicit Lines(std::string_view text) : text_(text) {}

  void on_null() override { value(); }
  void on_bool(bool) override { value(); }
  void on_integer(std::int64_t) override { value(); }
  void on_unsigned(std::uint64_t) override { value(); }
  void on_float(double) override { value(); }
  void on_text(std::string&) override { value(); }
  void on_key(std::string& key) override {
    open_.back().place = open_.back().path + key;
    note(open_.back().place);
  }
  void on_object(bool begins) override { container(begins, -1); }
  void on_array(bool begins) override { container(begins, 0); }

  JsonLines lines;

 private:
  struct Open {
    std::string path;   // path of the open container, with a trailing dot
    int index;          // of the next element; -1: the container is an object
    std::string place;  // path of the next value
  };

  // The parser has read up to `offset`, and one byte more after a number.
  void note(const std::string& place) {
    const auto until = std::min(offset, text_.size());
    line_ += static_cast<int>(std::count(text_.begin() + counted_, text_.begin() + until, '\n'));
    counted_ = until;
    lines.emplace(place, line_);
  }
  void value() {
    if (open_.empty() || open_.back().index < 0) return;
    open_.back().place = open_.back().path + std::to_string(open_.back().index++);
    note(open_.back().place);
  }
  void container(bool begins, int index) {
    if (!begins) return open_.pop_back();
    value();
    open_.push_back({open_.empty() ? "" : open_.back().place + ".", index, ""});
  }

  std::string_view text_;
  std::vector<Open> open_;
  std::size_t counted_ = 0;
  int line_ = 1;
};

}  // namespace

JsonLines json_lines(std::string_view text) {
  Lines lines(text);
  parse_json(text, {}, lines);
  return std::move(lines.lines);
}

}  // namespace ft
