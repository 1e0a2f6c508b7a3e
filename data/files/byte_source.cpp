#include "data/files/byte_source.h"

#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "engine/core/error.h"

namespace ft {
namespace {

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw UserError(Exit::input, str(printable(name), ": ", what));
}

class PlainFile : public ByteSource {
 public:
  explicit PlainFile(const DataFile& file)
      : name_(file.name), file_(std::fopen(file.path.c_str(), "rb"), &std::fclose) {
    if (!file_) fail(name_, std::strerror(errno));
  }
  std::size_t read(char* to, std::size_t size) override {
    const std::size_t count = std::fread(to, 1, size, file_.get());
    if (count == 0 && std::ferror(file_.get()) != 0)
      fail(name_, str("reading failed: ", std::strerror(errno)));
    total_ += static_cast<std::int64_t>(count);
    return count;
  }
  std::int64_t bytes_read() const override { return total_; }

 private:
  std::string name_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::int64_t total_ = 0;
};

// Reads compressed bytes, a block at a time.
class PackedFile : public ByteSource {
 public:
  explicit PackedFile(const DataFile& file) : file_(file), name_(file.name), block_(std::size_t{1} << 18) {}
  std::int64_t bytes_read() const override { return file_.bytes_read(); }

 protected:
  // Fills the block if it is used up; returns false at the end of the file.
  bool more() {
    if (at_ < end_) return true;
    at_ = 0;
    end_ = file_.read(block_.data(), block_.size());
    return end_ > 0;
  }

  PlainFile file_;
  std::string name_;
  std::vector<char> block_;
  std::size_t at_ = 0, end_ = 0;
};

class GzipFile : public PackedFile {
 public:
  explicit GzipFile(const DataFile& file) : PackedFile(file) {
    // 15: the largest window; 16: a gzip header.
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) fail(name_, "not enough memory to decompress it");
  }
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;
  ~GzipFile() override { inflateEnd(&stream_); }

  std::size_t read(char* to, std::size_t size) override {
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(size);
    while (stream_.avail_out == size) {
      if (!more()) {
        if (inside_) fail(name_, "cut short: its gzip data does not end");
        break;
      }
      if (!inside_) inflateReset(&stream_);  // a further member
      inside_ = true;
      stream_.next_in = reinterpret_cast<Bytef*>(block_.data() + at_);
      stream_.avail_in = static_cast<uInt>(end_ - at_);
      const int state = inflate(&stream_, Z_NO_FLUSH);
      at_ = end_ - stream_.avail_in;
      if (state == Z_STREAM_END)
        inside_ = false;
      else if (state != Z_OK && state != Z_BUF_ERROR)
        fail(name_, str("damaged gzip data: ", stream_.msg ? stream_.msg : "unknown reason"));
    }
    return size - stream_.avail_out;
  }

 private:
  z_stream stream_{};
  bool inside_ = true;  // in a member; a file holds at least one
};

class ZstdFile : public PackedFile {
 public:
  explicit ZstdFile(const DataFile& file)
      : PackedFile(file), stream_(ZSTD_createDStream(), &ZSTD_freeDStream) {
    if (!stream_) fail(name_, "not enough memory to decompress it");
  }
  std::size_t read(char* to, std::size_t size) override {
    ZSTD_outBuffer out{to, size, 0};
    while (out.pos == 0) {
      // The library must write its buffered output before it takes more input.
      if (!more() && !held_) {
        if (inside_) fail(name_, "cut short: its zstd data does not end");
        break;
      }
      ZSTD_inBuffer in{block_.data(), end_, at_};
      const bool empty = at_ == end_;
      const std::size_t left = ZSTD_decompressStream(stream_.get(), &out, &in);
      if (ZSTD_isError(left) != 0) fail(name_, str("damaged zstd data: ", ZSTD_getErrorName(left)));
      at_ = in.pos;
      inside_ = left != 0;
      held_ = out.pos == size;
      if (empty && out.pos == 0 && inside_) fail(name_, "cut short: its zstd data does not end");
    }
    return out.pos;
  }

 private:
  std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream_;
  bool inside_ = true;  // in a frame; a file holds at least one
  bool held_ = false;   // the last output was full, so more may follow
};

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const DataFile& file) {
  if (extension_of(file.path) == ".gz") return std::make_unique<GzipFile>(file);
  if (extension_of(file.path) == ".zst") return std::make_unique<ZstdFile>(file);
  return std::make_unique<PlainFile>(file);
}

}  // namespace ft
