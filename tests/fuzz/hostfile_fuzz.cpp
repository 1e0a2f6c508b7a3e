// libFuzzer: any bytes as a hostfile with filters after a zero byte, and as a .deepspeed_env.
#include "app/launch/deepspeed_env.h"
#include "app/launch/hostfile.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all = ft::fuzz::text_of(data, size), text = all.substr(0, all.find('\0'));
  const std::string filter(all.substr(std::min(text.size() + 1, size)));
  ft::fuzz::read_within(size, [&] {
    const std::vector<ft::Host> hosts = ft::parse_hostfile(text, "hostfile");
    for (const ft::Host& host : hosts)
      if (!ft::is_host(host.name)) std::abort();
    (void)ft::choose_hosts(hosts, filter, "");
  });
  ft::fuzz::read_within(size,
                        [&] { (void)ft::choose_hosts(ft::parse_hostfile(text, "hostfile"), "", filter); });
  ft::fuzz::read_within(size, [&] {
    ft::Variables variables;
    ft::parse_deepspeed_env(text, ".deepspeed_env", variables);
  });
  return 0;
}
