// The machines of a run, as DeepSpeed and OpenMPI write them down, and which of them take part.
//
//   # comment
//   node1 slots=4            DeepSpeed: a host once, with its number of ranks
//   node2 slots=4 max_slots=8
//   node3                    OpenMPI: one slot for each time it is named
//
// A host is a name of letters, digits, dots, hyphens and underscores that begins with a letter or a digit, or
// an IP number: nothing that a shell or ssh could take for something else.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ft {

constexpr int kMostSlots = 1024;  // of a host

struct Host {
  std::string name;
  std::vector<int> slots;  // 0, 1, ...: ranks, and the GPUs that they take
  bool chosen = false;     // its slots were named by --include or --exclude
  bool operator==(const Host&) const = default;
};

std::vector<int> first_slots(int n);  // 0, 1, ..., n - 1
bool is_host(std::string_view name);

// UserError(Exit::config) with file and line.
std::vector<Host> read_hostfile(const std::string& path);
std::vector<Host> parse_hostfile(std::string_view text, const std::string& file);

// DeepSpeed's filters, "node1@node2:0,2": only these hosts, or all but these; without numbers the whole host.
// At most one of the two may be set. UserError(Exit::config) when one names an unknown host or slot, or when
// no rank is left.
std::vector<Host> choose_hosts(std::vector<Host>, const std::string& include, const std::string& exclude);

}  // namespace ft
