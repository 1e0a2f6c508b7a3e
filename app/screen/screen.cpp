#include "app/screen/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "app/screen/format.h"
#include "engine/core/environment.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr auto kPatience = std::chrono::milliseconds(500);
constexpr int kUsualWidth = 80;

int width_of(int terminal) {
  winsize size{};
  return ioctl(terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualWidth;
}

int terminal_height() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

bool utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const auto value = variable(name); !value.empty())
      return value.find("UTF-8") != value.npos || value.find("utf8") != value.npos;
  return false;
}

}  // namespace

Screen::Options Screen::standard_output() {
  const bool terminal = isatty(STDOUT_FILENO) == 1 && variable("TERM") != "dumb";
  Options o;
  o.colour = terminal && variable("NO_COLOR").empty();
  o.utf8 = utf8_locale();
  if (terminal) o.width = [] { return width_of(STDOUT_FILENO); };
  o.write = [](const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); };
  return o;
}

Screen::Options Screen::standard_error(ProgressStyle progress) {
  const bool terminal = isatty(STDERR_FILENO) == 1 && variable("TERM") != "dumb";
  Options o;
  const bool wanted = progress == ProgressStyle::by_terminal || progress == ProgressStyle::full;
  o.live = progress == ProgressStyle::bar || (wanted && terminal);
  o.colour = terminal && variable("NO_COLOR").empty();
  o.utf8 = utf8_locale();
  if (terminal || o.live) o.width = [] { return width_of(STDERR_FILENO); };
  if (terminal) o.height = terminal_height;
  o.write = [](const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  };
  return o;
}

int Screen::width() const { return o_.width ? o_.width() : 0; }
int Screen::height() const { return o_.height ? o_.height() : 0; }

std::string Screen::coloured(const char* code, const std::string& text) const {
  return o_.colour ? "\x1b[" + std::string(code) + "m" + text + "\x1b[0m" : text;
}

// Breaks a text at spaces so that no line is longer than the screen. Does not break a longer word.
std::string Screen::wrapped(const std::string& text, int indent) const {
  const int width = this->width();
  if (width == 0 || indent == kWhole || show::columns(text) <= width) return text + "\n";
  const int margin = indent < width / 2 ? indent : 0;
  std::string out;
  std::int64_t used = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t letter = text.find_first_not_of(' ', at);
    if (letter == std::string::npos) break;
    const std::size_t end = std::min(text.find(' ', letter), text.size());
    const std::string word = text.substr(at, end - at);  // includes the spaces before the word
    const std::int64_t columns = show::columns(word);
    if (used > margin && used + columns > width) {
      const std::string bare = text.substr(letter, end - letter);
      out += "\n" + std::string(static_cast<std::size_t>(margin), ' ') + bare;
      used = margin + show::columns(bare);
    } else {
      out += word;
      used += columns;
    }
    at = end;
  }
  return out + "\n";
}

// Returns the terminal rows of the live lines. A terminal that became narrower has broken them into more
// rows.
std::int64_t Screen::rows() const {
  const std::int64_t width = this->width();
  if (width <= 0) return std::ssize(shown_);
  std::int64_t sum = 0;
  for (const std::int64_t columns : shown_) sum += std::max<std::int64_t>(1, (columns + width - 1) / width);
  return sum;
}

// Draws over the old live lines if they take as many rows.
std::string Screen::drawn() {
  const int width = std::max(1, this->width() - 1);  // text in the last column would make some terminals wrap
  const std::string text = make_(width);
  const std::int64_t lines = 1 + std::count(text.begin(), text.end(), '\n'), there = rows();
  std::string out;
  if (there > std::ssize(shown_) || lines < there)
    out = erased();
  else if (there > 1)
    out = str("\x1b[", there - 1, "A");
  shown_.clear();
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find('\n', begin);
    const std::string line =
        show::fit(text.substr(begin, end == std::string::npos ? end : end - begin), width);
    out += (begin == 0 ? "\r" : "\n\r") + line + "\x1b[K";
    shown_.push_back(show::columns(line));
  }
  return out;
}

// Erases the live lines, from the last row up to the first.
std::string Screen::erased() {
  std::string out = shown_.empty() ? "" : "\r\x1b[K";
  for (std::int64_t row = rows(); row > 1; --row) out += "\x1b[A\x1b[K";
  shown_.clear();
  return out;
}

void Screen::line(const std::string& text, int indent) {
  std::string out = erased();
  out += wrapped(text, indent);
  if (o_.live && make_) out += drawn();
  o_.write(out);
}

void Screen::live_line(std::function<std::string(int)> make) {
  if (!o_.live) return;
  make_ = std::move(make);
  const auto now = Clock::now();
  if (!shown_.empty() && now - last_ < kRedraw) return;
  last_ = now;
  o_.write(drawn());
}

void Screen::clear() {
  make_ = nullptr;
  if (!shown_.empty()) o_.write(erased());
}

Working::Working(Screen& screen, std::string what, std::string unit)
    : screen_(screen),
      what_(std::move(what)),
      unit_(std::move(unit)),
      start_(std::chrono::steady_clock::now()) {}

void Working::operator()(std::int64_t done, std::int64_t of) {
  const auto spent = std::chrono::steady_clock::now() - start_;
  if (spent < kPatience || of <= 0) return;
  const double seconds = std::chrono::duration<double>(spent).count();
  const auto part = static_cast<double>(done), whole = static_cast<double>(of);
  std::string text = what_ + "  ";
  if (unit_ == "bytes") {
    const show::MemoryUnit unit = show::memory_unit(of);
    text += show::memory(done, unit) + " of " + show::memory(of, unit) + " " + unit.name;
  } else {
    text += show::count(done) + " of " + show::count(of) + (unit_.empty() ? "" : " " + unit_);
  }
  text += "  " + show::percent(std::floor(100 * part / whole), 100);
  if (done > 0) text += "  " + show::duration(seconds * (whole - part) / part) + " left";
  screen_.live_line([text](int) { return text; });
}

}  // namespace ft
