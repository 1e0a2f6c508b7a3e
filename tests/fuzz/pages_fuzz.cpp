// libFuzzer: any bytes as a compressed page of Parquet or a buffer of Arrow. The first byte chooses the
// codec, two more the size that the file claims.
#include <array>

#include "data/files/columnar/unpack.h"
#include "engine/core/error.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using ft::columnar::Codec;
  constexpr std::array kCodecs{Codec::none,       Codec::snappy, Codec::gzip,    Codec::brotli,
                               Codec::lz4_hadoop, Codec::zstd,   Codec::lz4_raw, Codec::lz4_frame};
  if (size < 3) return 0;
  const Codec codec = kCodecs[data[0] % kCodecs.size()];
  const std::int64_t claimed = data[1] + 256 * data[2];
  ft::fuzz::read_within(size, [&] {
    try {
      const std::string page = ft::columnar::unpack(codec, ft::fuzz::text_of(data + 3, size - 3), claimed);
      if (std::ssize(page) != claimed) std::abort();
    } catch (const ft::columnar::Damage&) {
    }
  });
  return 0;
}
