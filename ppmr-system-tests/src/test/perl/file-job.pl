#!/usr/bin/perl
# file-job: a job with one file, for files that both nodes have and for files that change while the job is moved.
#
#   file-job.pl DIR KIND PATH
#
# Writes its PID to DIR/pid and the number of its turn to DIR/turns each 20 ms. Kinds: append and write (a line with the
# number of each turn, with and without O_APPEND), hold (open for reading), folder (working directory), late (opens PATH for
# reading once a checkpoint of it is begun), replace (has PATH open, and then puts a file of other bytes in its place and
# opens that one). It ends when DIR/stop is there.
use strict;
use warnings;
use Fcntl;

my ($dir, $kind, $path) = @ARGV;
my $changes = $kind eq 'late' || $kind eq 'replace';
my ($file, $done);

sub note {
    my ($name, $text) = @_;
    open(my $out, '>', "$dir/$name.part") or exit 3;
    print $out $text;
    close($out) or exit 3;
    rename("$dir/$name.part", "$dir/$name") or exit 3;
}

# The looks are over when CRIU is started, and it takes some milliseconds to stop the job.
sub begun {
    opendir(my $processes, '/proc') or exit 3;
    for my $pid (grep { /^\d+$/ } readdir($processes)) {
        open(my $words, '<', "/proc/$pid/cmdline") or next;
        return 1 if (<$words> // '') =~ /\0dump\0/;
    }
    return 0;
}

sub change {
    if ($kind eq 'replace') {
        open(my $new, '>', "$path.new") or exit 3;
        print $new 'two';
        close($new);
        rename("$path.new", $path) or exit 3;
    }
    sysopen($file, $path, O_RDONLY) or exit 3;
    $done = 1;
}

if ($kind eq 'append') {
    sysopen($file, $path, O_WRONLY | O_CREAT | O_APPEND) or exit 3;
} elsif ($kind eq 'write') {
    sysopen($file, $path, O_WRONLY | O_CREAT) or exit 3;
} elsif ($kind eq 'hold' or $kind eq 'replace') {
    sysopen($file, $path, O_RDONLY) or exit 3;
} elsif ($kind eq 'folder') {
    chdir($path) or exit 3;
}
note('pid', "$$\n");
for (my $turn = 1; $turn < 30000 and !-e "$dir/stop"; $turn++) {
    if ($kind eq 'append' or $kind eq 'write') {
        syswrite($file, "$turn\n") or note('failed', "turn $turn: $!");
    }
    note('turns', "$turn\n");
    for (my $look = 0; $look < 20; $look++) {
        change() if $changes and !$done and begun();
        select(undef, undef, undef, 0.001);
    }
}
