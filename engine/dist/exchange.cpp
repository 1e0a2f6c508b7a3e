#include "engine/dist/exchange.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace ft {
namespace {

const char* name_of(Collective c) {
  switch (c) {
    case Collective::all_gather:
      return "all_gather";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::broadcast:
      return "broadcast";
    case Collective::transfer:
      return "transfer";
    case Collective::barrier:
      return "barrier";
    case Collective::farewell:
      return "farewell";
  }
  return "what this ft does not know";
}

}  // namespace

Exchange::Exchange(Mesh mesh, double seconds) : mesh_(std::move(mesh)), seconds_(seconds) {
  lines_.resize(mesh_.peers.size());
}

std::string Exchange::where() const {
  return str("in ", name_of(now_.what), " number ", now_.number, " of rank ", rank());
}

void Exchange::fail(Exit exit, std::size_t blame, const std::string& what) {
  // The others should blame the same rank, not this one that leaves because of it. Best effort: a rank that
  // is in the middle of a message is not told.
  const Header farewell{Collective::farewell, now_.number, blame};
  for (std::size_t p = 0; p < mesh_.peers.size(); ++p) {
    const Line& l = lines_[p];
    const bool between = !l.sends || l.sent == 0 || l.sent == sizeof(Header) + l.out.bytes;
    if (mesh_.peers[p].socket && p != blame && between)
      ::send(mesh_.peers[p].socket.fd(), &farewell, sizeof farewell, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  throw UserError(exit, str(what, ", ", where()));
}

void Exchange::lost(std::size_t peer) {
  const int problem = errno;
  const bool closed = problem == 0 || problem == ECONNRESET || problem == EPIPE;
  fail(Exit::peer_lost, peer,
       str(mesh_.peers[peer].name, closed ? " went away" : " cannot be reached",
           closed ? "" : str(" (", std::strerror(problem), ")")));
}

void Exchange::silent() {
  std::string names;
  std::size_t first = 0;
  for (std::size_t p = mesh_.peers.size(); p-- > 0;) {
    const Line& l = lines_[p];
    if ((!l.hears || l.heard == sizeof(Header) + l.in.bytes) &&
        (!l.sends || l.sent == sizeof(Header) + l.out.bytes))
      continue;
    names = mesh_.peers[p].name + (names.empty() ? "" : ", ") + names;
    first = p;
  }
  fail(Exit::hang, first, str("no answer for ", seconds_, " s from ", names));
}

void Exchange::check(std::size_t peer, const Parcel& parcel) const {
  const Line& l = lines_[peer];
  if (l.in.what == Collective::farewell && l.in.bytes < mesh_.peers.size())
    throw UserError(Exit::peer_lost, str(mesh_.peers[l.in.bytes].name, " went away or does not answer, says ",
                                         mesh_.peers[peer].name, ", ", where()));
  if (l.in.what != now_.what || l.in.number != now_.number || l.in.bytes != parcel.in.size())
    throw UserError(Exit::mismatch,
                    str(mesh_.peers[peer].name, " is in ", name_of(l.in.what), " number ", l.in.number,
                        " with ", l.in.bytes, " bytes; ", parcel.in.size(), " were expected, ", where(),
                        "\n  do all ranks have the same configuration, data and version of ft?"));
}

bool Exchange::send(std::size_t peer, const Parcel& parcel) {
  Line& l = lines_[peer];
  const std::size_t head = sizeof(Header), all = head + parcel.out.size();
  iovec pieces[2];
  std::size_t n = 0;
  if (l.sent < head) pieces[n++] = {reinterpret_cast<char*>(&l.out) + l.sent, head - l.sent};
  const std::size_t done = l.sent < head ? 0 : l.sent - head;
  if (all > head) pieces[n++] = {const_cast<std::byte*>(parcel.out.data()) + done, parcel.out.size() - done};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = n;
  const ssize_t moved = ::sendmsg(mesh_.peers[peer].socket.fd(), &message, MSG_NOSIGNAL);
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  // A rank that leaves may have said why: what it sent is heard before its absence is.
  if (moved < 0 && l.hears && l.heard < head) return hear(peer, parcel);
  if (moved < 0) lost(peer);
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
  const ssize_t moved = ::recv(mesh_.peers[peer].socket.fd(), to, room, 0);
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (moved == 0) errno = 0;
  if (moved <= 0) lost(peer);
  l.heard += static_cast<std::size_t>(moved);
  if (greeting && l.heard == head) check(peer, parcel);
  return true;
}

void Exchange::run(Collective what, std::span<const Parcel> parcels) {
  now_ = {what, now_.number + 1, 0};
  for (std::size_t p = 0; p < lines_.size(); ++p) {
    const bool other = mesh_.peers[p].socket.fd() >= 0;
    lines_[p] = {.out = {what, now_.number, parcels[p].out.size()},
                 .in = {what, now_.number, parcels[p].in.size()},
                 .sends = other && parcels[p].sends,
                 .hears = other && parcels[p].hears};
    if (lines_[p].sends) sent_ += static_cast<std::int64_t>(parcels[p].out.size());
  }
  const auto patience = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds_));
  auto deadline = Clock::now() + patience;
  std::vector<pollfd> fds(lines_.size());
  for (;;) {
    bool waiting = false, moved = false;
    for (std::size_t p = 0; p < lines_.size(); ++p) {
      Line& l = lines_[p];
      const std::size_t head = sizeof(Header);
      if (l.sends && l.sent < head + parcels[p].out.size()) moved |= send(p, parcels[p]);
      if (l.hears && l.heard < head + parcels[p].in.size()) moved |= hear(p, parcels[p]);
      const bool out = l.sends && l.sent < head + parcels[p].out.size();
      const bool in = l.hears && l.heard < head + parcels[p].in.size();
      fds[p] = {out || in ? mesh_.peers[p].socket.fd() : -1,
                static_cast<short>((out ? POLLOUT : 0) | (in ? POLLIN : 0)), 0};
      waiting |= out || in;
    }
    if (!waiting) return;
    if (moved) {
      deadline = Clock::now() + patience;
      continue;
    }
    const int ready = ::poll(fds.data(), fds.size(), milliseconds_until(deadline));
    if (ready == 0 && Clock::now() >= deadline) silent();
  }
}

}  // namespace ft
