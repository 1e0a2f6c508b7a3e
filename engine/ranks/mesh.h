// How ranks find each other: every rank ends up with one connection to every other, and a second one between
// rank 0 and each (watch.h). Rank 0 listens at a known address; the others connect to it, say where they
// listen themselves, and are told of each other.
//
// What arrives at a port is not trusted: a connection that does not prove that it knows the job's token
// (handshake.h) is closed and disturbs nothing.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "engine/ranks/socket.h"

namespace ft {

struct Peer {
  Socket socket;     // empty for oneself
  Socket control;    // between rank 0 and the others, for heartbeats (watch.h); else empty
  std::string name;  // for people: "rank 2 on node7 (process 4711)"
};

// Ends the program for a rank that is lost, when the rank itself cannot: it is computing, or held up while it
// leaves. text: what to say; empty: it has been said. Called by a thread of its own.
using GiveUp = std::function<void(Exit, const std::string& text)>;

// What a person is to know while it happens, by a thread of its own.
using Notice = std::function<void(const std::string& text)>;

struct Mesh {
  int rank = 0;
  std::vector<Peer> peers;  // by rank
  GiveUp give_up;           // empty: nothing is done
  Notice notice;            // rank 0's; empty: no message
  int size() const { return static_cast<int>(peers.size()); }
};

struct Meeting {
  int rank = 0, size = 1;
  Address master;      // where rank 0 listens
  Socket listener;     // rank 0: listens already, made by the launcher; empty: it is made
  std::string token;   // of the job: a secret of its ranks
  std::string config;  // what all ranks must have alike, as a hash in hexadecimal digits
  double seconds = 0;  // until everybody must have come
};

// UserError(Exit::hang) names the ranks that did not connect; Exit::mismatch, those with another token,
// configuration, number of ranks or version of ft.
Mesh meet(Meeting);

// Ranks within one process, each to be used by a thread of its own: for tests.
std::vector<Mesh> mesh_of_threads(int size);

}  // namespace ft
