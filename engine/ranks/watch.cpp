#include "engine/ranks/watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ft {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBeat{500};
// Limits unanswered heartbeats: a stopped process answers nothing, and a full buffer would look like a cut.
constexpr int kMostUnanswered = 16;
constexpr milliseconds kSilent{3000};      // no heartbeat for so long: process stopped, or machine hangs
constexpr milliseconds kJudgement{3000};   // time that an accuser waits for rank 0's verdict
constexpr milliseconds kForMain{500};      // time until the verdict ends a rank that is computing
constexpr milliseconds kForLeaving{3000};  // time from printing the verdict to the end of the process

Socket event() {
  Socket s(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  require(static_cast<bool>(s), "no eventfd");
  return s;
}

// A signal may interrupt it. A thread that misses it would never end.
void raise(const Socket& event) {
  const std::uint64_t one = 1;
  while (::write(event.fd(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

}  // namespace

Watch::Watch(Mesh& mesh)
    : rank_(mesh.rank),
      give_up_(mesh.give_up),
      notice_(mesh.notice),
      exceptions_(std::uncaught_exceptions()),
      concluded_(event()),
      stop_(event()) {
  bool alone = true;
  for (Peer& p : mesh.peers) {
    Line& l = lines_.emplace_back();
    if (p.control) l.channel = &p.control;
    l.name = p.name;
    alone &= !p.control;
  }
  if (!alone) thread_ = std::thread([this] { run(); });
}

Watch::~Watch() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    const bool failed = std::uncaught_exceptions() > exceptions_;
    if (!verdict_ || abandoned_)
      for (Line& l : lines_)
        send(l, {.kind = failed ? Message::Kind::failed : Message::Kind::done, .place = place_});
  }
  raise(stop_);
  thread_.join();
}

void Watch::at_step(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  place_.step = step;
}

void Watch::enter(std::string_view what) {
  const std::lock_guard lock(mutex_);
  place_.set_about(what);
}

void Watch::begin(Collective what, std::uint32_t number, std::string_view group) {
  const std::lock_guard lock(mutex_);
  place_.set_group(group);
  place_.what = what;
  place_.number = number;
  place_.inside = 1;
  place_.waits_for = -1;
}

void Watch::waits_for(int rank) {
  const std::lock_guard lock(mutex_);
  place_.waits_for = rank;
}

void Watch::leave(std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  if (place_.number == number) place_.inside = 0;
}

void Watch::abandon() {
  const std::lock_guard lock(mutex_);
  if (verdict_) return;
  verdict_.emplace(Exit::peer_lost, "this rank leaves");
  abandoned_ = true;
  raise(concluded_);
}

void Watch::end() {
  const std::lock_guard lock(mutex_);
  require(verdict_.has_value(), "no verdict");
  said_ = true;
  said_at_ = Clock::now();
  throw UserError(*verdict_);
}

bool Watch::over() const {
  const std::lock_guard lock(mutex_);
  return verdict_.has_value();
}

void Watch::accuse(int rank, Exit exit, const std::string& what) {
  suspect(rank, exit, what);
  end();
}

void Watch::suspect(int rank, Exit exit, const std::string& what) {
  std::unique_lock lock(mutex_);
  if (!verdict_ && rank_ == 0) judge(rank, exit, what, place_);
  if (!verdict_ && lines_[0].channel) {
    Message m{
        .kind = Message::Kind::accusation, .exit = static_cast<int>(exit), .blame = rank, .place = place_};
    std::copy_n(what.data(), std::min(what.size(), m.text.size() - 1), m.text.data());
    send(lines_[0], m);
    changed_.wait_for(lock, kJudgement, [&] { return verdict_.has_value(); });
  }
  if (!verdict_)
    conclude(exit, str(lines_[static_cast<std::size_t>(std::max(0, rank))].name, " ", what, ", ",
                       describe(place_)));
}

const Whereabouts& Watch::place_of(int rank) const {
  return rank == rank_ ? place_ : lines_[static_cast<std::size_t>(rank)].place;
}

// Returns the rank that has begun the fewest collectives, or kWhoeverIsLast if all have begun the same
// number.
int Watch::last() const {
  int least = 0, most = 0;
  for (int r = 0; r < static_cast<int>(lines_.size()); ++r) {
    if (place_of(r).number < place_of(least).number) least = r;
    if (place_of(r).number > place_of(most).number) most = r;
  }
  return place_of(least).number == place_of(most).number ? kWhoeverIsLast : least;
}

// Follows the chain of ranks that wait for each other, from the accused to its end.
int Watch::behind(int accused) const {
  int at = accused;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    const Whereabouts& p = place_of(at);
    const bool known = at == rank_ || Clock::now() - lines_[static_cast<std::size_t>(at)].heard_at < kSilent;
    if (!known || !p.inside || p.waits_for < 0 || p.waits_for >= static_cast<int>(lines_.size())) return at;
    at = p.waits_for;
  }
  return accused;  // they wait for each other
}

// Describes the state of an unresponsive rank, as far as rank 0 knows.
std::string Watch::state_of(int rank) const {
  if (rank == rank_) return str("it is ", describe(place_));
  const Line& l = lines_[static_cast<std::size_t>(rank)];
  const auto silent = Clock::now() - l.heard_at;
  if (silent < kSilent) return str("it is alive, ", describe(l.place));
  return str("no heartbeat for ", std::chrono::round<std::chrono::seconds>(silent).count(),
             " s: its process is stopped, or its machine hangs");
}

void Watch::judge(int blame, Exit exit, const std::string& what, const Whereabouts& place) {
  if (verdict_) return;
  if (blame == kWhoeverIsLast) blame = last();
  if (blame == kWhoeverIsLast)
    return conclude(exit,
                    str("a GPU, or a network between them, ", what, "; all ranks are ", describe(place)));
  const int guilty = exit == Exit::hang ? behind(blame) : blame;
  std::string text = str(lines_[static_cast<std::size_t>(guilty)].name, " ", what, ", ", describe(place));
  if (exit == Exit::hang) text += "\n  " + state_of(guilty);
  conclude(exit, text);
}

void Watch::conclude(Exit exit, const std::string& text) {
  if (verdict_) return;
  verdict_.emplace(exit, text);
  concluded_at_ = Clock::now();
  if (rank_ == 0) {
    Message m{.kind = Message::Kind::verdict, .exit = static_cast<int>(exit), .place = place_};
    std::copy_n(text.data(), std::min(text.size(), m.text.size() - 1), m.text.data());
    for (Line& l : lines_) send(l, m);
  }
  raise(concluded_);
  changed_.notify_all();
}

void Watch::send(Line& l, const Message& m) {
  if (!l.channel) return;
  l.unsent.append(reinterpret_cast<const char*>(&m), sizeof m);
  flush(l);
}

// Sends as many bytes as the socket takes now.
void Watch::flush(Line& l) {
  if (!l.channel || l.unsent.empty()) return;
  const iovec all{l.unsent.data(), l.unsent.size()};
  const std::ptrdiff_t n = l.channel->send({&all, 1});
  if (n > 0) l.unsent.erase(0, static_cast<std::size_t>(n));
}

void Watch::beat() {
  for (Line& l : lines_)
    if (l.channel && l.unanswered < kMostUnanswered && l.unsent.size() < sizeof(Message)) {
      send(l, {.kind = Message::Kind::heartbeat, .place = place_});
      ++l.unanswered;
    }
}

// Heartbeats never fill the other end's buffer, so unacknowledged bytes have not arrived. The other end may
// receive from this rank but not reach it: a `deaf` message informs it.
void Watch::look_for_cuts() {
  for (std::size_t r = 0; r < lines_.size(); ++r) {
    Line& l = lines_[r];
    if (!l.channel) continue;
    const std::int64_t waiting = unheard(l.channel->fd()), arrived = l.channel->sent() - waiting;
    if (waiting == 0 || arrived != l.acknowledged) l.moved_at = Clock::now();
    l.acknowledged = arrived;
    if (Clock::now() - l.moved_at < kCut) continue;
    send(l, {.kind = Message::Kind::deaf, .place = place_});
    lost(r, ETIMEDOUT);
  }
}

void Watch::look_for_delays() {
  if (rank_ != 0 || verdict_ || !notice_) return;
  Delay::Seen seen{place_.step, 0, false};
  int waiter = -1;
  for (int r = 0; r < static_cast<int>(lines_.size()); ++r) {
    const Whereabouts& p = place_of(r);
    seen.begun += p.number;
    if (waiter < 0 && p.inside && p.waits_for >= 0) waiter = r;
  }
  const int missing = waiter >= 0 ? behind(place_of(waiter).waits_for) : last();
  seen.waiting = missing >= 0;
  const Delay::Event event = delay_.look(Clock::now(), seen);
  if (event == Delay::Event::none) return;
  const auto lasted = str(std::chrono::round<std::chrono::seconds>(delay_.lasted()).count(), " s");
  if (event == Delay::Event::over)
    return notice_(str(lines_[static_cast<std::size_t>(late_)].name, " continues after ", lasted));
  late_ = missing;
  notice_(str(lines_[static_cast<std::size_t>(missing)].name, " has kept the others waiting for ", lasted,
              ", ", describe(place_of(std::max(waiter, 0))), "\n  ", state_of(missing)));
}

void Watch::lost(std::size_t rank, int problem) {
  Line& l = lines_[rank];
  l.channel = nullptr;
  if (!l.done) judge(static_cast<int>(rank), Exit::peer_lost, loss_of(problem), place_);
}

void Watch::hear(std::size_t rank) {
  Line& l = lines_[rank];
  while (l.channel) {
    auto* to = reinterpret_cast<std::byte*>(&l.in) + l.heard;
    const std::ptrdiff_t n = l.channel->receive(to, sizeof(Message) - l.heard);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return lost(rank, n == 0 ? 0 : errno);
    l.heard += static_cast<std::size_t>(n);
    if (l.heard < sizeof(Message)) continue;
    l.heard = 0;
    l.unanswered = 0;
    l.heard_at = Clock::now();
    take(rank, l.in);
  }
}

void Watch::take(std::size_t rank, const Message& m) {
  Line& l = lines_[rank];
  l.place = m.place;
  const std::string text(m.text.data(), strnlen(m.text.data(), m.text.size()));
  switch (m.kind) {
    case Message::Kind::heartbeat:
      return;
    case Message::Kind::accusation:
      if (m.blame >= kWhoeverIsLast && m.blame < static_cast<int>(lines_.size()))
        judge(m.blame, Exit{m.exit}, text, m.place);
      return;
    case Message::Kind::verdict:
      return conclude(Exit{m.exit}, text);
    case Message::Kind::failed:
      return judge(static_cast<int>(rank), Exit::peer_lost, "failed; its own message says why", m.place);
    case Message::Kind::deaf:
      return judge(static_cast<int>(rank), Exit::peer_lost, "no longer receives messages from this machine",
                   m.place);
    case Message::Kind::done:
      l.done = true;
      return;
  }
}

// Ends the process if its own thread does not: a computing rank does not look for verdicts, and a leaving one
// may be held up.
void Watch::enforce() {
  if (!verdict_ || abandoned_ || !give_up_) return;
  const bool late = Clock::now() >= (said_ ? said_at_ + kForLeaving : concluded_at_ + kForMain);
  if (late) std::exchange(give_up_, {})(verdict_->code, said_ ? "" : verdict_->what());
}

Clock::time_point Watch::next_look(Clock::time_point beat_at) const {
  if (!verdict_ || abandoned_ || !give_up_) return beat_at;
  return std::min(beat_at, said_ ? said_at_ + kForLeaving : concluded_at_ + kForMain);
}

void Watch::run() {
  std::vector<pollfd> fds;
  auto beat_at = Clock::now();
  for (;;) {
    Clock::time_point until;
    {
      const std::lock_guard lock(mutex_);
      fds.clear();
      for (const Line& l : lines_)
        fds.push_back({l.channel ? l.channel->fd() : -1,
                       static_cast<short>(POLLIN | (l.unsent.empty() ? 0 : POLLOUT)), 0});
      fds.push_back({stop_.fd(), POLLIN, 0});
      until = next_look(beat_at);
    }
    ::poll(fds.data(), fds.size(), milliseconds_until(until));
    if (fds.back().revents) return;
    const std::lock_guard lock(mutex_);
    for (std::size_t r = 0; r < lines_.size(); ++r) {
      if (fds[r].revents & POLLOUT) flush(lines_[r]);
      if (fds[r].revents & ~POLLOUT) hear(r);
    }
    if (Clock::now() >= beat_at) {
      beat();
      look_for_cuts();
      look_for_delays();
      beat_at = Clock::now() + kBeat;
    }
    enforce();
  }
}

}  // namespace ft
