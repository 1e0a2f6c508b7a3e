#include "data/files/columnar/unpack.h"

#include <brotli/decode.h>
#include <lz4.h>
#include <lz4frame.h>
#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>

#include <climits>
#include <memory>

#include "engine/core/error.h"

namespace ft::columnar {
namespace {

// Each function decompresses into `to` and returns the number of bytes. Output that does not fit is an error
// like damage.
struct Broken {};

std::size_t from_snappy(Bytes packed, std::string& to) {
  std::size_t size = 0;
  if (snappy_uncompressed_length(packed.data(), packed.size(), &size) != SNAPPY_OK || size != to.size())
    throw Broken{};
  if (snappy_uncompress(packed.data(), packed.size(), to.data(), &size) != SNAPPY_OK) throw Broken{};
  return size;
}

std::size_t from_gzip(Bytes packed, std::string& to) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 32) != Z_OK) throw Broken{};  // 32: gzip's header or zlib's
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, &inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(to.data());
  stream.avail_out = static_cast<uInt>(to.size());
  for (;;) {
    if (inflate(&stream, Z_FINISH) != Z_STREAM_END) throw Broken{};
    if (stream.avail_in == 0) return to.size() - stream.avail_out;
    if (inflateReset(&stream) != Z_OK) throw Broken{};  // a further member
  }
}

std::size_t from_brotli(Bytes packed, std::string& to) {
  std::size_t size = to.size();
  const auto state =
      BrotliDecoderDecompress(packed.size(), reinterpret_cast<const std::uint8_t*>(packed.data()), &size,
                              reinterpret_cast<std::uint8_t*>(to.data()));
  if (state != BROTLI_DECODER_RESULT_SUCCESS) throw Broken{};
  return size;
}

std::size_t from_zstd(Bytes packed, std::string& to) {
  const std::size_t size = ZSTD_decompress(to.data(), to.size(), packed.data(), packed.size());
  if (ZSTD_isError(size) != 0) throw Broken{};
  return size;
}

std::size_t from_lz4(Bytes packed, char* to, std::size_t most) {
  const int size =
      LZ4_decompress_safe(packed.data(), to, static_cast<int>(packed.size()), static_cast<int>(most));
  if (size < 0) throw Broken{};
  return static_cast<std::size_t>(size);
}

std::size_t big_endian(Bytes bytes) {
  std::size_t value = 0;
  for (const char c : bytes.substr(0, 4)) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

// Decompresses Hadoop's blocks; returns false if the data does not consist of them.
bool from_hadoop(Bytes packed, std::string& to) try {
  std::size_t done = 0;
  while (!packed.empty()) {
    if (packed.size() < 8) return false;
    const std::size_t whole = big_endian(packed), part = big_endian(packed.substr(4));
    packed.remove_prefix(8);
    if (part > packed.size() || whole > to.size() - done) return false;
    if (from_lz4(packed.substr(0, part), to.data() + done, whole) != whole) return false;
    packed.remove_prefix(part);
    done += whole;
  }
  return done == to.size();
} catch (const Broken&) {
  return false;
}

std::size_t from_lz4_frame(Bytes packed, std::string& to) {
  LZ4F_dctx* made = nullptr;
  if (LZ4F_isError(LZ4F_createDecompressionContext(&made, LZ4F_VERSION)) != 0) throw Broken{};
  const std::unique_ptr<LZ4F_dctx, LZ4F_errorCode_t (*)(LZ4F_dctx*)> context(made,
                                                                             &LZ4F_freeDecompressionContext);
  std::size_t done = 0;
  for (std::size_t left = 1; left != 0;) {
    std::size_t in = packed.size(), out = to.size() - done;
    left = LZ4F_decompress(made, to.data() + done, &out, packed.data(), &in, nullptr);
    if (LZ4F_isError(left) != 0 || (left != 0 && in == 0 && out == 0)) throw Broken{};
    packed.remove_prefix(in);
    done += out;
  }
  return done;
}

// Returns the largest size that `packed` can unpack to, so that no memory is taken for a false size in the
// file.
std::int64_t most_from(Codec codec, std::size_t packed) {
  const auto size = static_cast<std::int64_t>(packed);
  switch (codec) {
    case Codec::none:
      return size;
    case Codec::snappy:
      return 32 * size;  // a copy of 64 bytes takes 3
    case Codec::gzip:
      return 64 + 1040 * size;  // deflate: 258 bytes in two bits
    case Codec::lz4_raw:
    case Codec::lz4_hadoop:
    case Codec::lz4_frame:
      return 256 * size;  // each further byte makes a copy 255 longer
    default:
      return kLargestPart;
  }
}

std::size_t unpack_into(std::string& to, Codec codec, Bytes packed) {
  switch (codec) {
    case Codec::snappy:
      return from_snappy(packed, to);
    case Codec::gzip:
      return from_gzip(packed, to);
    case Codec::brotli:
      return from_brotli(packed, to);
    case Codec::zstd:
      return from_zstd(packed, to);
    case Codec::lz4_raw:
      return from_lz4(packed, to.data(), to.size());
    case Codec::lz4_hadoop:
      return from_hadoop(packed, to) ? to.size() : from_lz4(packed, to.data(), to.size());
    case Codec::lz4_frame:
      return from_lz4_frame(packed, to);
    case Codec::none:
      to = packed;
      return to.size();
    case Codec::lzo:
      throw Damage("compressed with LZO, which is not read");
  }
  throw Damage(str("compressed with codec ", static_cast<int>(codec), ", which is not known"));
}

}  // namespace

std::string unpack(Codec codec, Bytes packed, std::int64_t size) {
  check(size >= 0, "a size below zero");
  if (size > kLargestPart || static_cast<std::int64_t>(packed.size()) > kLargestPart)
    throw Damage(str("a part of more than ", kLargestPart >> 20, " MiB; write smaller pages or batches"));
  check(size <= most_from(codec, packed.size()), "compressed data that cannot have the size it claims");
  std::string to(static_cast<std::size_t>(size), '\0');
  std::size_t got = 0;
  try {
    got = unpack_into(to, codec, packed);
  } catch (const Broken&) {
    throw Damage("compressed data that is damaged, or does not have the size it claims");
  }
  check(got == static_cast<std::size_t>(size), "compressed data that does not have the size it claims");
  return to;
}

std::uint32_t crc32_of(Bytes bytes) {
  return static_cast<std::uint32_t>(
      ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

}  // namespace ft::columnar
