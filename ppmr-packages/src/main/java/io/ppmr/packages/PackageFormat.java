package io.ppmr.packages;

/** The two formats of packages, with what differs between the distributions that use them. */
enum PackageFormat {
    DEB("/usr/share/zsh/vendor-completions"),
    RPM("/usr/share/zsh/site-functions");

    private final String zshFolder;

    PackageFormat(String zshFolder) {
        this.zshFolder = zshFolder;
    }

    /** Returns the directory in which zsh looks for completions of packages. */
    String zshFolder() {
        return zshFolder;
    }

    /** Returns the word by which the scripts of a package know their format. */
    String word() {
        return this == DEB ? "deb" : "rpm";
    }
}
