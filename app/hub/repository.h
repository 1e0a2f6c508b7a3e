// The hub's cache of one model or data set, written as huggingface_hub writes it:
//
//   CACHE/models--org--name/blobs/HASH                    contents
//   CACHE/models--org--name/blobs/HASH.incomplete         the first part of one
//   CACHE/models--org--name/snapshots/COMMIT/PATH         a link to a blob
//   CACHE/models--org--name/refs/REVISION                 a commit
//   CACHE/.locks/models--org--name/HASH.lock              held while a blob is fetched
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "app/hub/listing.h"
#include "engine/files/hub_cache.h"

namespace ft::hub {

class Repository {
 public:
  Repository(const std::filesystem::path& cache, const HubName& name);

  std::filesystem::path blob(const RemoteFile&) const;
  std::filesystem::path unfinished(const RemoteFile&) const;
  // True if the blob is there with its size.
  bool has(const RemoteFile&) const;
  // Bytes that are still to be fetched, given the unfinished blob.
  std::int64_t missing(const RemoteFile&) const;
  // Makes the folder of blobs. Throws UserError (storage).
  void create() const;
  // Gives the files their names in the commit's snapshot, which appears complete if it is new, and then the
  // revision its commit. Removes what dead processes left of both. Returns the snapshot's folder. Throws
  // UserError (storage).
  std::filesystem::path publish(const Listing&, const std::string& revision) const;

 private:
  friend class BlobLock;
  std::filesystem::path folder_, locks_;
};

// The lock of a blob, which huggingface_hub takes too. Waits for another process that fetches the blob.
// Throws Stopped if `stop` returns true meanwhile. On a file system without locks every process gets it.
class BlobLock {
 public:
  // Calls `waiting` once if another process holds the lock.
  BlobLock(const Repository&, const RemoteFile&, const std::function<bool()>& stop,
           const std::function<void()>& waiting = {});
  BlobLock(const BlobLock&) = delete;
  BlobLock& operator=(const BlobLock&) = delete;
  ~BlobLock();

 private:
  int fd_ = -1;
};

}  // namespace ft::hub
