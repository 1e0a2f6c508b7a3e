#include "app/hub/transfers.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace ft::hub {

void Progress::note(const std::string& text) {
  const std::lock_guard lock(mutex_);
  notes_.push_back(text);
}

std::vector<std::string> Progress::take_notes() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notes_, {});
}

std::unique_ptr<HttpClient> Transfers::connection() {
  return make_http_client({.certificates = access_.certificates,
                           .stop = [this] { return stopping(); },
                           .connect_seconds = limits_.connect_seconds,
                           .silent_seconds = limits_.silent_seconds});
}

void Transfers::run(std::size_t count, TransferLine& line, const Move& move) {
  next_ = 0;
  {
    const std::vector<std::jthread> threads = start(count, move);
    watch(line);
  }
  show_notes();
  if (error_) std::rethrow_exception(error_);
  if (signals_.asked()) throw Stopped();
}

// Starts as many threads as there are connections and files, or as the system allows.
std::vector<std::jthread> Transfers::start(std::size_t count, const Move& move) {
  const auto most = std::min(static_cast<std::size_t>(limits_.connections), count);
  std::vector<std::jthread> threads;
  const std::lock_guard lock(mutex_);
  try {
    while (threads.size() < most) {
      threads.emplace_back([=, this, &move] { work(count, move); });
      ++running_;
    }
  } catch (const std::system_error& e) {
    if (threads.empty()) throw UserError(Exit::hardware, str("cannot start a thread: ", e.what()));
  }
  return threads;
}

// Moves one file after another, in a thread.
void Transfers::work(std::size_t count, const Move& move) {
  try {
    const auto http = connection();
    for (std::size_t i = next_++; i < count && !stopping(); i = next_++) move(*http, i);
  } catch (const Stopped&) {
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
    failed_ = true;
  }
  const std::lock_guard lock(mutex_);
  --running_;
  ended_.notify_all();
}

void Transfers::show_notes() {
  for (const std::string& note : progress_.take_notes()) screen_.line(note);
}

// Draws the progress until all threads have ended.
void Transfers::watch(TransferLine& line) {
  std::unique_lock lock(mutex_);
  while (running_ > 0) {
    ended_.wait_for(lock, std::chrono::milliseconds(100));
    show_notes();
    line.update(progress_.there, progress_.moved);
    if (screen_.live())
      screen_.live_line([&](int width) { return line.text(width, screen_.utf8()); });
    else if (line.due())
      screen_.line(line.text(0, false));
  }
}

}  // namespace ft::hub
