#include "engine/ranks/mesh.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "engine/core/error.h"
#include "engine/ranks/handshake.h"
#include "engine/ranks/seal.h"

namespace ft {
namespace {

// A rank's description of itself; also an entry of rank 0's table of all ranks. Copied from memory: all ranks
// run the same binary on machines of one byte order (x86-64 and AArch64 are little-endian).
struct Greeting {
  std::int32_t rank = 0, size = 0, port = 0, process = 0;
  std::array<char, 68> config{};
  std::array<char, 64> host{}, address{};
};
struct Answer {  // the connecting end's answer to the challenge
  Proof proof{};
  Greeting greeting;
};

template <std::size_t N>
void put(std::array<char, N>& to, const std::string& text) {
  std::memcpy(to.data(), text.data(), std::min(text.size(), N - 1));
}
template <std::size_t N>
std::string text_of(const std::array<char, N>& a) {
  return {a.data(), strnlen(a.data(), N)};
}

Greeting greeting_of(const Meeting& m, int port) {
  Greeting g;
  g.rank = m.rank;
  g.size = m.size;
  g.port = port;
  g.process = static_cast<std::int32_t>(::getpid());
  gethostname(g.host.data(), g.host.size() - 1);
  put(g.config, m.config);
  return g;
}

std::string name_of(const Greeting& g) {
  return str("rank ", g.rank, " on ", printable(text_of(g.host)), " (process ", g.process, ")");
}

std::span<const std::byte> bytes_of(const Greeting& g) { return std::as_bytes(std::span(&g, 1)); }

std::uint16_t code_of(Encryption e) { return static_cast<std::uint16_t>(e); }

std::string other_encryption(const std::string& who, std::uint16_t theirs, const Meeting& m) {
  return str(who, " has distributed.encryption=", ft::name_of(Encryption(theirs)), ", and rank ", m.rank,
             " has ", ft::name_of(m.encryption), "; all ranks need the same");
}

// A connection that has proved nothing yet.
struct Guest {
  Socket socket;
  Clock::time_point until;
  Hello hello;
  Challenge challenge;  // the guest's proof of knowing the token covers its nonce
  Answer answer;
  std::size_t read = 0;  // bytes of hello, then of answer

  bool said_all() const { return read == sizeof hello + sizeof answer; }
};

// Accepts one connection from each missing rank.
class Door {
 public:
  Door(const Socket& listener, const Meeting& m, std::vector<int> missing)
      : listener_(listener), m_(m), missing_(std::move(missing)) {}

  // Calls come(greeting, channel) for each rank.
  template <class Come>
  void wait(Clock::time_point deadline, const Come& come) {
    while (!missing_.empty()) {
      std::vector<pollfd> fds{{listener_.fd(), POLLIN, 0}};
      for (const Guest& g : guests_) fds.push_back({g.socket.fd(), POLLIN, 0});
      ::poll(fds.data(), fds.size(), std::min(milliseconds_until(deadline), 200));
      for (std::size_t i = guests_.size(); i-- > 0;) {
        const bool stays = !fds[i + 1].revents || hear(guests_[i]);
        if (stays && guests_[i].said_all()) {
          const Clock::time_point before = Clock::now();
          let_in(guests_[i], deadline, come);
          // Gives the others the time in which the handshake of encryption kept this end from hearing them.
          for (Guest& g : guests_) g.until += Clock::now() - before;
        }
        if (!stays || guests_[i].said_all() || Clock::now() > guests_[i].until)
          guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (fds[0].revents) open();
      if (Clock::now() > deadline) throw UserError(Exit::hang, absent());
    }
  }

 private:
  void open() {
    constexpr std::size_t kMost = 256;
    Socket s = accept_from(listener_);
    if (s && guests_.size() < kMost)
      guests_.push_back({.socket = std::move(s), .until = Clock::now() + std::chrono::seconds(5)});
  }
  // Returns false if the guest closed the connection or is not of this job.
  bool hear(Guest& g) const {
    const bool hello = g.read < sizeof(Hello);
    auto* at = hello ? reinterpret_cast<std::byte*>(&g.hello) + g.read
                     : reinterpret_cast<std::byte*>(&g.answer) + (g.read - sizeof(Hello));
    const std::size_t room = (hello ? sizeof(Hello) : sizeof(Hello) + sizeof(Answer)) - g.read;
    const ssize_t n = ::recv(g.socket.fd(), at, room, 0);
    if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
    g.read += static_cast<std::size_t>(n);
    if (g.read < g.hello.magic.size()) return true;
    if (g.hello.magic != Hello{}.magic) return false;
    if (g.read == sizeof(Hello)) return challenge(g);
    return !g.said_all() ||
           same(g.answer.proof, proof_of_guest(m_.token, g.hello, g.challenge, bytes_of(g.answer.greeting)));
  }
  // Answers the guest's hello. The guest sees from the answer whether this is its job and its version.
  bool challenge(Guest& g) const {
    Challenge& c = g.challenge;
    c = {.encryption = code_of(m_.encryption), .nonce = random_nonce(), .proof = {}};
    c.proof = proof_of_listener(m_.token, g.hello, c);
    return send_all(g.socket, &c, sizeof c, Clock::now()) && g.hello.version == kMeshVersion;
  }
  template <class Come>
  void let_in(Guest& g, Clock::time_point deadline, const Come& come) {
    const Greeting& it = g.answer.greeting;
    if (it.size != m_.size)
      throw UserError(Exit::mismatch,
                      str(name_of(it), " expects ", it.size, " ranks; rank ", m_.rank, " expects ", m_.size));
    if (g.hello.encryption != code_of(m_.encryption))
      throw UserError(Exit::mismatch, other_encryption(name_of(it), g.hello.encryption, m_));
    if (text_of(it.config) != m_.config)
      throw UserError(Exit::mismatch, str(name_of(it), " has a different configuration from rank ", m_.rank));
    const auto found = std::find(missing_.begin(), missing_.end(), it.rank);
    if (found == missing_.end())
      throw UserError(Exit::config, str(name_of(it), ": rank ", it.rank, " is already taken"));
    missing_.erase(found);
    come(it, sealed(std::move(g.socket), m_.encryption, End::listener, m_.token, g.hello, g.challenge,
                    deadline, name_of(it)));
  }
  std::string absent() const {
    std::string list;
    for (const int r : missing_) list += (list.empty() ? "" : ", ") + std::to_string(r);
    return str("rank ", m_.rank, " waited ", m_.seconds, " s; these ranks did not connect: ", list);
  }

  const Socket& listener_;
  const Meeting& m_;
  std::vector<int> missing_;
  std::vector<Guest> guests_;
};

std::vector<int> ranks_from(int first, int end) {
  std::vector<int> all;
  for (int r = first; r < end; ++r) all.push_back(r);
  return all;
}

void keep(Mesh& mesh, const Greeting& g, Channel channel) {
  Peer& p = mesh.peers[static_cast<std::size_t>(g.rank)];
  p.name = name_of(g);
  p.data = std::move(channel);
}

void keep_control(Mesh& mesh, int rank, Channel channel) {
  mesh.peers[static_cast<std::size_t>(rank)].control = std::move(channel);
}

// The connecting end of the handshake.
Channel introduce(Socket to, const Meeting& m, const Greeting& mine, const std::string& whom,
                  Clock::time_point deadline) {
  const Hello hello{.encryption = code_of(m.encryption), .nonce = random_nonce()};
  Challenge c;
  if (!send_all(to, &hello, sizeof hello, deadline) || !receive_all(to, &c, sizeof c, deadline))
    throw UserError(Clock::now() < deadline ? Exit::peer_lost : Exit::hang,
                    str("rank ", m.rank, " connected to ", whom, " and got no answer"));
  if (c.version != kMeshVersion)
    throw UserError(Exit::mismatch, str(whom, " uses version ", c.version, " and rank ", m.rank, " version ",
                                        kMeshVersion, "; all ranks need the same ft"));
  if (!same(c.proof, proof_of_listener(m.token, hello, c)))
    throw UserError(Exit::mismatch,
                    str(whom, " belongs to another job than rank ", m.rank, ", or has another token"));
  const Answer answer{proof_of_guest(m.token, hello, c, bytes_of(mine)), mine};
  if (!send_all(to, &answer, sizeof answer, deadline))
    throw UserError(Exit::peer_lost, whom + " went away while the ranks were connecting");
  // Reports different settings on both ends, which have proved that they belong to this job.
  if (c.encryption != hello.encryption)
    throw UserError(Exit::mismatch, other_encryption(whom, c.encryption, m));
  return sealed(std::move(to), m.encryption, End::guest, m.token, hello, c, deadline, whom);
}

// Rank 0 receives every rank's greeting, then sends all greetings to every rank.
void receive_all_ranks(Mesh& mesh, const Meeting& m, Clock::time_point deadline) {
  Socket own;
  if (!m.listener) own = listen_at(m.master);
  std::vector<Greeting> table(static_cast<std::size_t>(m.size));
  table[0] = greeting_of(m, 0);
  const Socket& listener = m.listener ? m.listener : own;
  Door(listener, m, ranks_from(1, m.size)).wait(deadline, [&](const Greeting& g, Channel c) {
    auto& entry = table[static_cast<std::size_t>(g.rank)];
    entry = g;
    put(entry.address, remote_address(c.fd()).host);
    keep(mesh, g, std::move(c));
  });
  for (int r = 1; r < m.size; ++r) {
    Peer& p = mesh.peers[static_cast<std::size_t>(r)];
    if (!send_all(p.data, table.data(), table.size() * sizeof(Greeting), deadline))
      throw UserError(Exit::peer_lost, p.name + " went away while the ranks were connecting");
  }
  Door(listener, m, ranks_from(1, m.size)).wait(deadline, [&](const Greeting& g, Channel c) {
    keep_control(mesh, g.rank, std::move(c));
  });
}

// Other ranks connect to rank 0, receive the addresses of all, connect to the ranks before them, and accept
// the ranks after them.
void come_to_rank_0(Mesh& mesh, const Meeting& m, Clock::time_point deadline) {
  Socket to = connect_to(m.master, deadline, "rank 0");
  const Socket listener = listen_at({local_address(to).host, 0});
  const Greeting mine = greeting_of(m, local_address(listener).port);
  std::vector<Greeting> table(static_cast<std::size_t>(m.size));
  const std::string whom = str("rank 0 at ", printable(m.master.host), " port ", m.master.port);
  Channel data = introduce(std::move(to), m, mine, whom, deadline);
  if (!receive_all(data, table.data(), table.size() * sizeof(Greeting), deadline))
    throw UserError(Clock::now() < deadline ? Exit::peer_lost : Exit::hang,
                    errno == EBADMSG ? str(whom, " ", loss_of(EBADMSG), ", while the ranks were connecting")
                                     : str("rank ", m.rank, " connected to ", printable(m.master.host),
                                           " port ", m.master.port,
                                           " and was not accepted: rank 0 went away or expects other ranks"));
  table[0].rank = 0;
  keep(mesh, table[0], std::move(data));
  keep_control(mesh, 0, introduce(connect_to(m.master, deadline, "rank 0"), m, mine, whom, deadline));
  for (int r = 1; r < m.rank; ++r) {
    const Greeting& g = table[static_cast<std::size_t>(r)];
    keep(mesh, g,
         introduce(connect_to({text_of(g.address), g.port}, deadline, name_of(g)), m, mine, name_of(g),
                   deadline));
  }
  Door door(listener, m, ranks_from(m.rank + 1, m.size));
  door.wait(deadline, [&](const Greeting& g, Channel c) { keep(mesh, g, std::move(c)); });
}

}  // namespace

Mesh meet(Meeting m) {
  require(0 <= m.rank && m.rank < m.size, "no such rank");
  Mesh mesh{.rank = m.rank, .encryption = m.encryption};
  mesh.peers.resize(static_cast<std::size_t>(m.size));
  const auto wait = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(m.seconds));
  if (m.rank == 0)
    receive_all_ranks(mesh, m, Clock::now() + wait);
  else
    come_to_rank_0(mesh, m, Clock::now() + wait);
  return mesh;
}

std::vector<Mesh> mesh_of_threads(int size) {
  std::vector<Mesh> all(static_cast<std::size_t>(size));
  for (std::size_t a = 0; a < all.size(); ++a) {
    all[a].rank = static_cast<int>(a);
    all[a].peers.resize(all.size());
    for (std::size_t b = 0; b < all.size(); ++b) all[a].peers[b].name = str("rank ", b, " (a thread)");
  }
  const auto connect = [&](std::size_t a, std::size_t b, Channel Peer::*which) {
    std::array<int, 2> ends{};
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0,
            "no socket pair");
    all[a].peers[b].*which = Socket(ends[0]);
    all[b].peers[a].*which = Socket(ends[1]);
  };
  for (std::size_t a = 0; a < all.size(); ++a)
    for (std::size_t b = a + 1; b < all.size(); ++b) {
      connect(a, b, &Peer::data);
      if (a == 0) connect(a, b, &Peer::control);
    }
  return all;
}

}  // namespace ft
