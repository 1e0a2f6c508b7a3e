// Ranks as threads, each with a communicator to the others.
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/core/error.h"
#include "engine/cpu/cpu_ops.h"
#include "engine/ranks/mesh_communicator.h"
#include "engine/ranks/overlapped_communicator.h"

namespace ft {

// Runs body(ops, mesh) on `size` ranks; returns the exception of each rank.
inline std::vector<std::exception_ptr> on_threads(int size, const std::function<void(Ops&, Mesh)>& body) {
  std::vector<Mesh> meshes = mesh_of_threads(size);
  std::vector<std::exception_ptr> thrown(meshes.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < meshes.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        cpu::CpuOps ops(1);
        body(ops, std::move(meshes[r]));
      } catch (...) {
        thrown[r] = std::current_exception();
      }
    });
  for (auto& t : threads) t.join();
  return thrown;
}

// Runs body(communicator) on each rank; returns the exception of each rank.
inline std::vector<std::exception_ptr> run_ranks_catching(int size,
                                                          const std::function<void(MeshCommunicator&)>& body,
                                                          double seconds = 20, const Wire& wire = {}) {
  return on_threads(size, [&](Ops& ops, Mesh mesh) {
    MeshCommunicator comm(ops, std::move(mesh), seconds, MeshCommunicator::kAnyBucket, wire);
    body(comm);
  });
}

// Exit code and text of a rank's exception; Exit::done and no text if it threw none.
struct Said {
  Exit code = Exit::done;
  std::string what;
};
inline Said said(const std::exception_ptr& e) {
  try {
    if (e) std::rethrow_exception(e);
  } catch (const UserError& u) {
    return {u.code, u.what()};
  } catch (const std::exception& other) {
    return {Exit::done, other.what()};
  }
  return {};
}

// Rethrows the exception of the first rank that failed by itself. Ranks that only report a lost peer come
// last.
inline void rethrow_first(const std::vector<std::exception_ptr>& thrown) {
  for (const bool told : {false, true})
    for (const auto& e : thrown)
      if (e && (said(e).code == Exit::peer_lost) == told) std::rethrow_exception(e);
}

// Runs body(communicator) on each rank, with collectives during computation (`overlap`) or without. Rethrows
// the first exception.
inline void run_ranks(int size, bool overlap, const std::function<void(Communicator&)>& body) {
  rethrow_first(on_threads(size, [&](Ops& ops, Mesh mesh) {
    std::unique_ptr<Communicator> comm = std::make_unique<MeshCommunicator>(ops, std::move(mesh), 20);
    if (overlap) comm = std::make_unique<OverlappedCommunicator>(std::move(comm));
    body(*comm);
  }));
}

inline void run_ranks(int size, const std::function<void(MeshCommunicator&)>& body, double seconds = 20) {
  rethrow_first(run_ranks_catching(size, body, seconds));
}

}  // namespace ft
