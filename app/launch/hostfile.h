// Reads a hostfile of DeepSpeed or OpenMPI, and chooses the machines of a run.
//
//   # comment
//   node1 slots=4            DeepSpeed: a host once, with its number of ranks
//   node2 slots=4 max_slots=8
//   node3                    OpenMPI: one slot for each time it is named
//
// A host is a name of letters, digits, dots, hyphens and underscores that begins with a letter or a digit, or
// an IP address. A shell or ssh cannot take it for anything else.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ft {

constexpr int kMostSlots = 1024;  // slots of a host

struct Host {
  std::string name;
  std::vector<int> slots;  // 0, 1, ...: ranks, and the GPUs that they use
  bool chosen = false;     // --include or --exclude named its slots
  bool operator==(const Host&) const = default;
};

std::vector<int> first_slots(int n);  // returns 0, 1, ..., n - 1
bool is_host(std::string_view name);

// Throws UserError (config) with file and line if a line is malformed.
std::vector<Host> read_hostfile(const std::string& path);
std::vector<Host> parse_hostfile(std::string_view text, const std::string& file);

// Applies DeepSpeed's filters, "node1@node2:0,2": only these hosts, or all but these. A host without numbers
// means all its slots. At most one filter may be set. Throws UserError (config) if a filter names an unknown
// host or slot, or if no rank remains.
std::vector<Host> choose_hosts(std::vector<Host>, const std::string& include, const std::string& exclude);

}  // namespace ft
