// Ranks as threads, each with a communicator to the others.
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "engine/cpu/cpu_ops.h"
#include "engine/dist/mesh_communicator.h"
#include "engine/dist/overlapped_communicator.h"

namespace ft {

// Runs body(communicator) on `size` ranks; returns what each threw, by rank.
inline std::vector<std::exception_ptr> run_ranks_catching(int size,
                                                          const std::function<void(MeshCommunicator&)>& body,
                                                          double seconds = 20) {
  std::vector<Mesh> meshes = mesh_of_threads(size);
  std::vector<std::exception_ptr> thrown(meshes.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < meshes.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        cpu::CpuOps ops(1);
        MeshCommunicator comm(ops, std::move(meshes[r]), seconds);
        body(comm);
      } catch (...) {
        thrown[r] = std::current_exception();
      }
    });
  for (auto& t : threads) t.join();
  return thrown;
}

// The same with what a run has: collectives beside the computation, or not.
inline void run_ranks(int size, bool overlap, const std::function<void(Communicator&)>& body) {
  std::vector<Mesh> meshes = mesh_of_threads(size);
  std::vector<std::exception_ptr> thrown(meshes.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < meshes.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        cpu::CpuOps ops(1);
        std::unique_ptr<Communicator> comm =
            std::make_unique<MeshCommunicator>(ops, std::move(meshes[r]), 20);
        if (overlap) comm = std::make_unique<OverlappedCommunicator>(std::move(comm));
        body(*comm);
      } catch (...) {
        thrown[r] = std::current_exception();
      }
    });
  for (auto& t : threads) t.join();
  for (const auto& e : thrown)
    if (e) std::rethrow_exception(e);
}

// The same; what a rank throws is thrown.
inline void run_ranks(int size, const std::function<void(MeshCommunicator&)>& body, double seconds = 20) {
  for (const auto& e : run_ranks_catching(size, body, seconds))
    if (e) std::rethrow_exception(e);
}

}  // namespace ft
