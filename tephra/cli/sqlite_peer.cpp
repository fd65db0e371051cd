// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/sqlite_peer.h"

#include <dlfcn.h>

#include "tephra/base/error.h"
#include "tephra/retrieve/words.h"

namespace tephra {
namespace {

constexpr int kRow = 100;  // SQLITE_ROW

// The calls that are used, by their names in the library.
struct Calls {
  const char* (*libversion)() = nullptr;
  int (*open)(const char*, void**) = nullptr;
  int (*close)(void*) = nullptr;
  int (*exec)(void*, const char*, void*, void*, char**) = nullptr;
  int (*prepare)(void*, const char*, int, void**, const char**) = nullptr;
  int (*bind_text)(void*, int, const char*, int, void (*)(void*)) = nullptr;
  int (*bind_int64)(void*, int, long long) = nullptr;
  int (*step)(void*) = nullptr;
  int (*reset)(void*) = nullptr;
  long long (*column_int64)(void*, int) = nullptr;
  int (*finalize)(void*) = nullptr;

  bool load() {
    void* library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    const auto find = [&](const char* name, auto& call) {
      call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(dlsym(library, name));
      return call != nullptr;
    };
    return find("sqlite3_libversion", libversion) && find("sqlite3_open", open) &&
           find("sqlite3_close", close) && find("sqlite3_exec", exec) &&
           find("sqlite3_prepare_v2", prepare) && find("sqlite3_bind_text", bind_text) &&
           find("sqlite3_bind_int64", bind_int64) && find("sqlite3_step", step) &&
           find("sqlite3_reset", reset) && find("sqlite3_column_int64", column_int64) &&
           find("sqlite3_finalize", finalize);
  }
};

class Fts5 : public SqlitePeer {
 public:
  explicit Fts5(const Calls& calls) : calls_(calls) {}
  ~Fts5() override {
    if (select_ != nullptr) calls_.finalize(select_);
    if (database_ != nullptr) calls_.close(database_);
  }

  bool start() {
    return calls_.open(":memory:", &database_) == 0 &&
           run("create virtual table chunks using fts5(text, content='', detail=full)");
  }

  std::string version() const override { return calls_.libversion(); }

  void add(const std::vector<std::string_view>& chunks) override {
    void* insert = prepared("insert into chunks(rowid, text) values (?1, ?2)");
    run("begin");
    for (size_t i = 0; i < chunks.size(); ++i) {
      calls_.bind_int64(insert, 1, static_cast<long long>(i) + 1);
      calls_.bind_text(insert, 2, chunks[i].data(), static_cast<int>(chunks[i].size()), nullptr);
      calls_.step(insert);
      calls_.reset(insert);
    }
    run("commit");
    calls_.finalize(insert);
  }

  std::vector<uint32_t> query(std::string_view question, int count) override {
    if (select_ == nullptr) {
      select_ = prepared("select rowid from chunks where chunks match ?1 order by rank limit ?2");
    }
    std::string words;
    WordReader reader(question);
    for (Word word; reader.next(word);) {
      if (is_stop_word(word.hash)) continue;
      words.append(words.empty() ? "\"" : " OR \"").append(word.text) += '"';
    }
    std::vector<uint32_t> found;
    if (words.empty()) return found;
    calls_.bind_text(select_, 1, words.data(), static_cast<int>(words.size()), nullptr);
    calls_.bind_int64(select_, 2, count);
    while (calls_.step(select_) == kRow) {
      found.push_back(static_cast<uint32_t>(calls_.column_int64(select_, 0) - 1));
    }
    calls_.reset(select_);
    return found;
  }

 private:
  bool run(const char* sql) { return calls_.exec(database_, sql, nullptr, nullptr, nullptr) == 0; }
  void* prepared(const char* sql) {
    void* statement = nullptr;
    const int code = calls_.prepare(database_, sql, -1, &statement, nullptr);
    TEPHRA_ASSERT(code == 0, "SQLite knows our statements");
    return statement;
  }

  Calls calls_;
  void* database_ = nullptr;
  void* select_ = nullptr;
};

}  // namespace

std::unique_ptr<SqlitePeer> SqlitePeer::open() {
  Calls calls;
  if (!calls.load()) return nullptr;
  auto peer = std::make_unique<Fts5>(calls);
  if (!peer->start()) return nullptr;
  return peer;
}

}  // namespace tephra
