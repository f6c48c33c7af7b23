// Package reload keeps a running program in step with one configuration file, and
// with the files that it names.
//
// A [Loop] reads the file, decides when what it reads is a finished save, and
// hands the bytes to a function of the caller. It knows nothing of what the
// bytes mean; which files they name the caller says ([Loop.Beside]).
//
// # What it promises
//
//   - Every save is noticed, whichever way it is made: written in place, renamed
//     over, moved to a backup and written anew, deleted and created, a symbolic
//     link pointed elsewhere, a mounted ConfigMap exchanged as a whole.
//   - Content is applied once, and only when it has changed. Touching the file,
//     changing its mode or saving it as it was does nothing and logs nothing.
//   - Content is applied when it has stayed the same for 100 ms. A file whose
//     last byte is not a newline is taken as still being written for 1.5 s, then
//     used with a warning. A file that is missing or unreadable is reported after
//     1 s. Nothing of this touches what runs.
//   - One apply at a time, all from the goroutine that called [Loop.Run].
//   - One line in the log per attempt. Content that was refused is reported once,
//     not at every look; the next good save is applied.
//
// # Vocabulary
//
// A look is one reading of the file, and of those it names: a change of any is a
// change of the whole. What a look finds, content or an error, is
// judged once it has been found unchanged for its patience (the 100 ms, 1.5 s and
// 1 s above). Judging it ends in one [Result]: applied, refused, unreadable or
// unchanged. What runs is the content applied last.
//
// # When it looks
//
// At any event in the folder of the path as given, and in the folder of the file
// that the path leads to through symbolic links; every 3 s in any case; and when
// [Loop.Trigger] asks. Folders are watched, never the file: a watch on a file goes
// deaf with the first save that replaces the file, and a ConfigMap is exchanged
// without an event that names it. The look every 3 s covers what the kernel does
// not tell: NFS, overlays, files mounted alone into a container, folders that were
// renamed or came back, a full event queue, a machine out of inotify instances.
//
// # An example
//
// An editor truncates the file and writes it in two halves, 60 ms apart:
//
//	  0 ms  truncated       look: empty, no final newline; patience 1.5 s
//	  2 ms  first half      look: new content; its 100 ms begin
//	 62 ms  second half     look: new content again; its 100 ms begin
//	162 ms                  look: the same as at 62 ms; Apply is called
//	165 ms                  "configuration reloaded", with what changed
//
// With 200 ms between the halves, a first half that happens to end with a newline
// would be applied if Apply accepts it. Only a rename makes a save one step; that
// is what editors, and tools that manage files, should do.
//
// # Asking for a reload
//
// [Loop.Trigger] looks at once and waits for the outcome. It waits for the file to
// settle like everything else, so a request in the middle of a save never applies
// half of it. It differs in two ways: content that was refused is tried again
// (perhaps the port it wants is free now), and "unchanged" is an answer.
//
// # Files beside it
//
// What [Loop.ReadFile] returns while content is applied is what settled with it,
// so that a file which somebody begins to write just then is not read half. A file
// above 1 MiB is read when its size, its time or the file itself is another; a time
// of the last two seconds says nothing, since two saves may share it. While the
// configuration itself cannot be used, nobody says which files it names, and none
// is followed: it and they are one state, which is in force as a whole.
//
// # Files that are included
//
// What [Loop.Include] names are patterns. What they stand for at a look is a part of the
// content like the file itself: a new one, one that is gone or renamed, and one that is
// saved are changes, and all are applied together. Hidden files and what editors and
// package managers leave behind are none. They are followed also while the whole cannot
// be used, so that a fault in one of them can be mended there.
//
// # What it does not do
//
// It does not retry refused content by itself. It reads at most 2 MiB and one byte,
// and 64 MiB and one byte of a file beside it: larger content reaches Apply cut off
// there, and Apply is expected to refuse it by its size, so that the message is the
// same as that of every other way to load a file.
package reload
