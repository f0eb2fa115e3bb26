# A header as it is installed: FROM with "folder/name.h" of ours included as <millrace/folder/name.h>, into TO.
file(READ ${FROM} text)
string(REGEX REPLACE "#include \"([a-z_]+/[a-z_]+\\.h)\"" "#include <millrace/\\1>" text "${text}")
file(WRITE ${TO} "${text}")
