// Fetches one file of a repository into its blob. A broken connection is made again where it broke; an
// unfinished blob of an earlier process is continued. The size and the hash are checked before the blob
// gets its name.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "app/hub/client.h"
#include "app/hub/repository.h"

namespace ft::hub {

// Progress of all files, for several threads.
class Progress {
 public:
  std::atomic<std::int64_t> there = 0;     // bytes on disk, of all files
  std::atomic<std::int64_t> received = 0;  // bytes that came over the network

  void note(const std::string& text);
  std::vector<std::string> take_notes();  // notes since the last call

 private:
  std::mutex mutex_;
  std::vector<std::string> notes_;
};

struct Fetching {
  Client& client;
  const Repository& repository;
  std::string commit;
  Progress& progress;
  std::function<bool()> stop;
  std::chrono::milliseconds pause;  // wait after a first failure, see Patience
};

// Returns when the blob is there. Throws UserError (input) if the server sends other bytes than the listing
// promises, (peer_lost) if it cannot be reached, (storage) if the disk is full; Stopped if `stop` returned
// true.
void fetch(const Fetching&, const RemoteFile&);

}  // namespace ft::hub
