// Bytes that a rank moves while it computes.
#pragma once
#include "engine/pass/context.h"
#include "engine/zero/parameter_store.h"

namespace ft {

struct Traffic {          // in bytes
  std::int64_t sent = 0;  // to other ranks
  Moved moved{};          // between the device and places of offloaded data
  Traffic operator+(const Traffic& o) const { return {sent + o.sent, moved + o.moved}; }
  Traffic operator-(const Traffic& o) const { return {sent - o.sent, moved - o.moved}; }
  Traffic operator*(std::int64_t n) const { return {sent * n, moved * n}; }
  Traffic operator/(std::int64_t n) const { return {sent / n, moved / n}; }
  bool operator==(const Traffic&) const = default;
};

// Returns the traffic so far; `inputs` may be null.
inline Traffic traffic_of(const Communicator& comm, const ParameterStore& store, const InputsHome* inputs) {
  return {comm.sent(), store.moved() + (inputs ? inputs->depot.moved() : Moved{})};
}

}  // namespace ft
