#include "engine/ranks/exchange.h"

#include <algorithm>
#include <cerrno>

namespace ft {
namespace {

constexpr std::chrono::seconds kLook{1};

}  // namespace

Exchange::Exchange(Mesh mesh, double seconds) : mesh_(std::move(mesh)), seconds_(seconds), watch_(mesh_) {
  lines_.resize(mesh_.peers.size());
  fds_.resize(mesh_.peers.size() + 1);
}

void Exchange::lost(std::size_t peer, int problem) {
  watch_.accuse(static_cast<int>(peer), Exit::peer_lost, loss_of(problem));
}

void Exchange::silent() {
  std::size_t first = 0;
  while (lines_[first].sent_all() && lines_[first].heard_all()) ++first;
  watch_.accuse(static_cast<int>(first), Exit::hang, str("has not answered for ", seconds_, " s"));
}

void Exchange::check(std::size_t peer, const Parcel& parcel) {
  const Line& l = lines_[peer];
  if (l.in.what != now_.what || l.in.number != now_.number || l.in.bytes != parcel.in.size())
    watch_.accuse(static_cast<int>(peer), Exit::mismatch,
                  str("is in ", name_of(l.in.what), " number ", l.in.number, " with ", l.in.bytes,
                      " bytes, and rank ", rank(), " expects ", parcel.in.size(),
                      " (do all ranks have the same configuration, data and version of ft?)"));
}

bool Exchange::send(std::size_t peer, const Parcel& parcel) {
  Line& l = lines_[peer];
  const std::size_t head = sizeof(Header), all = head + parcel.out.size();
  iovec pieces[2];
  std::size_t n = 0;
  if (l.sent < head) pieces[n++] = {reinterpret_cast<char*>(&l.out) + l.sent, head - l.sent};
  const std::size_t done = l.sent < head ? 0 : l.sent - head;
  if (all > head) pieces[n++] = {const_cast<std::byte*>(parcel.out.data()) + done, parcel.out.size() - done};
  const std::ptrdiff_t moved = mesh_.peers[peer].data.send({pieces, n});
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  // A rank that leaves may have sent the reason: read its message before reporting its absence.
  if (moved < 0 && l.hears && l.heard < head) return hear(peer, parcel);
  if (moved < 0) lost(peer, errno);
  l.sent += static_cast<std::size_t>(moved);
  return moved > 0;
}

bool Exchange::hear(std::size_t peer, const Parcel& parcel) {
  Line& l = lines_[peer];
  const std::size_t head = sizeof(Header);
  const bool greeting = l.heard < head;
  void* to = greeting ? static_cast<void*>(reinterpret_cast<char*>(&l.in) + l.heard)
                      : static_cast<void*>(parcel.in.data() + (l.heard - head));
  const std::size_t room = greeting ? head - l.heard : head + parcel.in.size() - l.heard;
  const std::ptrdiff_t moved = mesh_.peers[peer].data.receive(to, room);
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (moved <= 0) lost(peer, moved == 0 ? 0 : errno);
  l.heard += static_cast<std::size_t>(moved);
  if (greeting && l.heard == head) check(peer, parcel);
  return true;
}

// Detects a connection that is cut while data is in flight; TCP itself would retry for a quarter of an hour.
// TCP's keepalive watches connections without data in flight.
void Exchange::look_for_cuts() {
  for (std::size_t p = 0; p < lines_.size(); ++p) {
    Line& l = lines_[p];
    if (l.sent_all() && l.heard_all()) continue;
    const std::int64_t now = unacknowledged(mesh_.peers[p].data.fd());
    if (now == 0 || now != l.in_flight) l.since = Clock::now();
    l.in_flight = now;
    if (now != 0 && Clock::now() - l.since > kCut) lost(p, ETIMEDOUT);
  }
}

// Waits until data can be sent or received, or there is a verdict.
void Exchange::wait(Clock::time_point deadline) {
  const auto missing = std::find_if(lines_.begin(), lines_.end(),
                                    [](const Line& l) { return !l.sent_all() || !l.heard_all(); });
  watch_.waits_for(static_cast<int>(missing - lines_.begin()));
  fds_.back() = {watch_.fd(), POLLIN, 0};
  const int ready =
      ::poll(fds_.data(), fds_.size(), milliseconds_until(std::min(deadline, Clock::now() + kLook)));
  if (fds_.back().revents) watch_.end();
  if (ready != 0) return;
  if (Clock::now() >= deadline) silent();
  look_for_cuts();
}

std::uint32_t Exchange::note(Collective what, const std::string& group) {
  watch_.begin(what, ++begun_, group);
  return begun_;
}

void Exchange::run(Collective what, std::span<const Parcel> parcels, Series& series) {
  now_ = {what, what == Collective::send_receive ? 0 : ++series.number, 0};
  watch_.begin(what, ++begun_, series.group);
  for (std::size_t p = 0; p < lines_.size(); ++p) {
    const bool other = mesh_.peers[p].data.fd() >= 0;
    lines_[p] = {.out = {what, now_.number, parcels[p].out.size()},
                 .in = {what, now_.number, parcels[p].in.size()},
                 .sends = other && parcels[p].sends,
                 .hears = other && parcels[p].hears};
    if (lines_[p].sends) sent_ += static_cast<std::int64_t>(parcels[p].out.size());
  }
  const auto patience = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds_));
  auto deadline = Clock::now() + patience;
  for (;;) {
    bool waiting = false, moved = false;
    for (std::size_t p = 0; p < lines_.size(); ++p) {
      Line& l = lines_[p];
      if (!l.sent_all()) moved |= send(p, parcels[p]);
      if (!l.heard_all()) moved |= hear(p, parcels[p]);
      const bool out = !l.sent_all(), in = !l.heard_all();
      fds_[p] = {out || in ? mesh_.peers[p].data.fd() : -1,
                 static_cast<short>((out ? POLLOUT : 0) | (in ? POLLIN : 0)), 0};
      waiting |= out || in;
    }
    if (!waiting) return watch_.leave(begun_);
    if (moved)
      deadline = Clock::now() + patience;
    else
      wait(deadline);
  }
}

}  // namespace ft
