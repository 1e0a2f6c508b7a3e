// A mesh of connections, and how ranks find each other. Every rank ends up with one connection to every
// other; rank 0 has a second one to each (watch.h). Rank 0 listens at a known address. The others connect to
// it, send the address where they listen, and receive the addresses of all.
//
// Data that arrives at a port is not trusted: a connection that does not prove that it knows the job's token
// (handshake.h) is closed and disturbs nothing.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "engine/ranks/channel.h"
#include "engine/ranks/encryption.h"
#include "engine/ranks/socket.h"

namespace ft {

struct Peer {
  Channel data;      // empty for the own rank
  Channel control;   // rank 0's second connection, for heartbeats (watch.h); empty between other ranks
  std::string name;  // for people: "rank 2 on node7 (process 4711)"
};

// Ends the program when a rank is lost and the own rank cannot do it: it is computing, or its exit is held
// up. text: the message to print; empty: it was printed. Called on another thread.
using GiveUp = std::function<void(Exit, const std::string& text)>;

// Prints a message to the user while the program runs. Called on another thread.
using Notice = std::function<void(const std::string& text)>;

struct Mesh {
  int rank = 0;
  std::vector<Peer> peers;  // by rank
  GiveUp give_up;           // empty: do nothing
  Notice notice;            // on rank 0; empty: print nothing
  Encryption encryption = Encryption::none;
  int size() const { return static_cast<int>(peers.size()); }
};

struct Meeting {
  int rank = 0, size = 1;
  Address master;      // the address at which rank 0 listens
  Socket listener;     // rank 0: the launcher's listening socket; empty: make one
  std::string token;   // the job's secret
  std::string config;  // hash, in hexadecimal digits, of the settings that must be equal on all ranks
  double seconds = 0;  // until all ranks must have connected
  Encryption encryption = Encryption::none;
};

// Throws UserError (hang) if ranks did not connect, and names them; (peer_lost) if a rank goes away
// meanwhile, or bytes between the ranks are changed; (mismatch) if a rank has another token, configuration,
// encryption, number of ranks or version of ft; (config) if two ranks have the same number.
Mesh meet(Meeting);

// Meshes of ranks within one process, for tests. Each must be used by a separate thread.
std::vector<Mesh> mesh_of_threads(int size);

}  // namespace ft
