#include "app/serve/sandbox.h"

#include <filesystem>

#include "app/process/confine.h"
#include "app/serve/voices.h"
#include "engine/files/file.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGpu = "/dev/nvidiactl";

[[noreturn]] void refuse(const std::string& why) { throw UserError(Exit::config, "--sandbox: " + why); }

void check(const ServeArgs& args) {
  if (const std::string reason = reason_against_confining(); !reason.empty())
    refuse(reason + "; leave out --sandbox, or confine the server by a container");
  bool on_cpu = !path_exists(kGpu);
  for (const std::string& setting : args.overrides)
    if (setting.starts_with("device=") && setting != "device=auto") on_cpu = setting == "device=cpu";
  if (!on_cpu) refuse("NVIDIA's driver opens device files while it computes; add device=cpu");
  std::error_code none;
  if (fs::is_regular_file(args.model, none))
    refuse(
        str(printable(args.model),
            ": a GGUF file is unpacked into a folder, which the sandbox forbids; convert it with ft export "
            "--to hf"));
}

// Returns the system's files that a starting program reads: libraries and their list, host names, the time
// zone, and facts about the machine.
std::vector<std::string> system_files() {
  return {"/lib",
          "/lib64",
          "/usr/lib",
          "/usr/lib64",
          "/usr/local/lib",
          "/usr/share/zoneinfo",
          "/etc/ld.so.cache",
          "/etc/localtime",
          "/etc/ssl/openssl.cnf",
          "/etc/hosts",
          "/etc/host.conf",
          "/etc/resolv.conf",
          "/etc/nsswitch.conf",
          "/etc/gai.conf",
          "/proc/self",
          "/proc/meminfo",
          "/proc/cpuinfo",
          "/proc/mounts",
          "/proc/sys/vm/overcommit_memory",
          "/sys/devices/system",
          "/sys/fs/cgroup",
          "/dev/null",
          "/dev/urandom"};
}

}  // namespace

std::string enter_sandbox(const ServeArgs& args) {
  check(args);
  std::vector<std::string> named{args.model};
  for (const std::string& adapter : args.adapters) named.push_back(adapter_named(adapter).folder);
  for (const std::string& file : {args.key_file, args.https.certificate, args.https.key})
    if (!file.empty()) named.push_back(file);
  for (const std::string& setting : args.overrides)
    if (const std::string value = setting.substr(setting.find('=') + 1); !value.empty() && path_exists(value))
      named.push_back(value);
  confine_files(system_files(), named);
  confine_calls(AllowedCalls::reading);
  std::string list;
  for (const std::string& path : named) list += (list.empty() ? "" : ", ") + path;
  return str("sandbox: reads only ", printable(list, 500),
             " and the system's libraries; writes no file, runs no program, connects to nothing");
}

void close_sandbox() { confine_calls(AllowedCalls::serving); }

}  // namespace ft
