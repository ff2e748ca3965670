# Attacks a source and a target until it is ended: what an ordinary user of the node, a stranger on the network and a peer
# with a wrong key can do, all at once. Run as an ordinary user, held to one processor.
#
#   perl attacks.pl KEY=VALUE...    seed, port (the target's), hello (newest and oldest version, mechanism and kind of a connection, A,B,C,D),
#                                   secret (a file of root's), victim (a user ID), announced (the source's folder), sockets (A,B: the services'),
#                                   mounts (A,B: theirs), own (A,B: the mounts in which a job of this user is moved),
#                                   metrics (A,B: the ports of both endpoints), pidfile (the one that names a process of a job of this user)
#
# Prints a line "NAME PID TRIED GAINED" a second for each attack: GAINED counts what must never succeed.
use strict;
use warnings;
# What cannot be written to is no news here.
no warnings 'io';
use Fcntl;
use IO::Socket::INET;
use IO::Socket::UNIX;
use POSIX qw(mkfifo);
use Socket qw(SOL_SOCKET SO_LINGER);
use Time::HiRes qw(time sleep);

my %o = map { split /=/, $_, 2 } @ARGV;
my ($tried, $gained, $told) = (0, 0, 0);
$SIG{PIPE} = 'IGNORE';
$SIG{CHLD} = 'DEFAULT';
$| = 1;

sub tell_count {
    my ($name) = @_;
    return if time < $told + 1;
    $told = time;
    syswrite STDOUT, "$name $$ $tried $gained\n";
}

# Counts what must fail.
sub must_fail { $tried++; $gained++ if $_[0]; return }

sub bytes { join '', map { chr int rand 256 } 1 .. $_[0] }

sub sparse { my ($name) = @_;
    sysopen my $file, $name, O_WRONLY | O_CREAT or return;
    return truncate $file, 1 << 40;
}

# A connection that ends by a reset, so that this machine does not run out of ports.
sub target {
    my $to = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $o{port}, Timeout => 5) or return;
    setsockopt $to, SOL_SOCKET, SO_LINGER, pack 'II', 1, 0;
    return $to;
}

sub hello {
    my ($newest, $oldest, $mechanism, $kind) = split /,/, $o{hello};
    return "PPMr" . pack('CCCC', $newest, $oldest, $mechanism, $kind) . "\0" x 16 . bytes(32);
}

# Until so many seconds from now, or nothing comes.
sub take { my ($from, $length) = @_;
    my ($all, $ready) = ('', '');
    vec($ready, fileno $from, 1) = 1;
    while (length $all < $length && select my $now = $ready, undef, undef, 1) {
        sysread($from, $all, $length - length $all, length $all) or last;
    }
    return $all;
}

my @held;

my %attacks = (
    # Fifty a second, of the source's own address, that say nothing.
    idle => sub { push @held, target(); shift @held if @held > 600; $tried++; sleep 0.02 },
    half => sub {
        my $to = target();
        syswrite $to, substr hello(), 0, 1 + int rand 56 if $to;
        push @held, $to;
        shift @held if @held > 200;
        $tried++;
        sleep 0.02;
    },
    garbage => sub { my $to = target(); syswrite $to, bytes(1 + int rand 4096) if $to; $tried++; sleep 0.02 },
    wrongkey => sub {
        my $to = target() or return;
        syswrite $to, hello();
        my $challenge = take($to, 88);
        syswrite $to, bytes(32);
        must_fail(length $challenge == 88 && take($to, 4) eq "\0\0\0\0");
        sleep 0.02;
    },
    control => sub {
        for my $path (split /,/, $o{sockets}) {
            my $to = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $path);
            $tried++;
            next if !$to;
            my @requests = (
                '{"request":"migrate","job":"victim"}', '{"request":"migrate"}', '{"request":"cancel","id":"0000"}',
                "{\"request\":\"migrate\",\"job\":\"$o{victim}/slurm-7.0\"}", '{"request":"announce"}',
                '{"request":"resolve","id":"0000","outcome":"commit","carry_out":true}', '{"request":"watch"}',
                # Words that a terminal would obey, and that would forge a line; many values in little text.
                "{\"request\":\"migrate\",\"job\":\"\xc2\x9b2J\\u001b[2J\\nready \xe2\x80\xae\"}",
                "\e[2J\xc2\x9b1m\rready", '{"request":"status","x":[' . ('{},' x 12_000) . '{}]}',
                bytes(200), '{' x 200);
            my $which = int rand @requests + 2;
            # Some say nothing, and stay.
            if ($which >= @requests) {
                push @held, $to;
                shift @held if @held > 12;
                next;
            }
            syswrite $to, "$requests[$which]\n";
            my $answer = take($to, 1);
            $gained++ if $which != 4 && $answer ne '' && ($answer . take($to, 30)) =~ /started|watching|cancelling|resolution/;
        }
    },
    announcements => sub {
        my ($jobs, $moves) = ("$o{announced}/jobs", "$o{announced}/moves");
        must_fail(mkdir $_) for "$jobs/$o{victim}", "$jobs/slurm-7.0", "$moves/$o{victim}", "$jobs/$o{victim}/slurm-7.0";
        must_fail(symlink '/tmp', "$moves/slurm-7.0");
        must_fail(rename "$jobs/$o{victim}", "$jobs/mine");
        my $own = "$jobs/$<";
        return if !-d $own;
        my $job = "$own/job-" . int rand 300;
        mkdir $job;
        my $rank = "$job/rank-" . int rand 8;
        unlink $rank;
        my $kind = int rand 5;
        symlink($o{secret}, $rank) if $kind == 0;
        mkfifo($rank, 0600) if $kind == 1;
        open my $stat, '<', '/proc/self/stat' or die $!;
        my $process = int((split ' ', scalar <$stat>)[21]);
        if ($kind > 1 && open my $file, '>', $rank) {
            truncate $file, 1 << 30 if $kind == 2;
            print $file bytes(5000) if $kind == 3;
            print $file "pid = $$\nstart_ticks = $process\ncheckpointer = \"replay\"\n" if $kind == 4;
        }
        $tried++;
    },
    mounts => sub {
        for my $mount (split /,/, $o{mounts}) {
            must_fail(mkdir "$mount/x");
            must_fail(symlink '/tmp', "$mount/y");
            for my $migration (glob "$mount/*") {
                my $rank = "$migration/rank-0";
                my ($image, $new, $folder);
                next if -o $rank;
                # A success is a gain only where the rank is not her own, which may appear between two of these lines.
                must_fail(mkdir("$migration/x") && !-o $rank);
                must_fail(rename($rank, "$migration/rank-1") && !-o $rank);
                # Her own image in the place of the other's.
                must_fail(open($image, '+<', "$rank/image") && !-o $image);
                must_fail(sysopen($new, "$rank/image", O_WRONLY | O_CREAT | O_TRUNC) && !-o $new);
                must_fail(symlink('/tmp/x', "$rank/image") && !-o $rank);
                must_fail(opendir($folder, $rank) && !-o $folder);
            }
        }
    },
    # In the folders of her own rank: as many names as there is room for, and files of each kind.
    names => sub {
        my $made = 0;
        for my $rank (grep { -o } map { glob "$_/*/rank-0" } split /,/, $o{own}) {
            for (1 .. 2000) {
                my $name = "$rank/" . 'n' x int(rand 200) . int rand 1e9;
                my $kind = int rand 20;
                $made++ if $kind == 0 ? symlink 'x' x 4000, $name : $kind == 1 ? mkfifo $name, 0600
                    : $kind == 2 ? link "$rank/image", $name : mkdir $name;
                sparse("$name.s") if $kind == 3;
                $tried++;
            }
        }
        sleep 0.05 if !$made;
    },
    # In the folders that the services give to the tools of her own job, of which her processes' /proc tells her.
    scratch => sub {
        my %folders = map { $_ => 1 } grep { defined && m{/scratch$} } map { readlink "$_/cwd" } glob '/proc/[0-9]*';
        for my $folder (keys %folders) {
            opendir my $list, $folder or next;
            for my $name ((grep { !/^\.+$/ } readdir $list), 'pid', 'restart.log', 'x' . int rand 1000) {
                my $kind = int rand 4;
                unlink "$folder/$name";
                symlink $o{secret}, "$folder/$name" if $kind == 0;
                mkfifo "$folder/$name", 0600 if $kind == 1;
                sparse("$folder/$name") if $kind == 2;
                mkdir "$folder/$name" if $kind == 3;
                $tried++;
            }
        }
        must_fail(open my $secret, '>>', $o{secret});
        sleep 0.02;
    },
    pidfile => sub {
        my $kind = int rand 4;
        my $fresh = "$o{pidfile}.new";
        unlink $fresh;
        symlink $o{secret}, $fresh if $kind == 0;
        mkfifo $fresh, 0600 if $kind == 1;
        sparse($fresh) if $kind == 2;
        # A process of root's.
        if ($kind == 3 && open my $file, '>', $fresh) { print $file "1\n" }
        $tried++ if rename $fresh, $o{pidfile};
        sleep 0.02;
    },
    metrics => sub {
        my @ports = split /,/, $o{metrics};
        my $to = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $ports[int rand @ports], Timeout => 5) or return;
        setsockopt $to, SOL_SOCKET, SO_LINGER, pack 'II', 1, 0;
        my $kind = int rand 4;
        syswrite $to, bytes(1 + int rand 4096) if $kind == 0;
        syswrite $to, 'GET /metrics HTT' if $kind == 1;
        # Asks, and takes nothing.
        syswrite $to, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" if $kind == 2;
        push @held, $to;
        shift @held if @held > 200;
        $tried++;
        sleep 0.02;
    },
    # What has not come is opened and read by many processes, each of which then waits in the mount.
    waiters => sub {
        my @children;
        for my $rank (grep { -o } map { glob "$_/*/rank-0" } split /,/, $o{own}) {
            for (1 .. 256) {
                my $child = fork;
                last if !defined $child;
                if (!$child) {
                    open my $image, '<', "$rank/image" or POSIX::_exit(0);
                    sysseek $image, 1 << 30, 0;
                    sysread $image, my $buffer, 1;
                    POSIX::_exit(0);
                }
                push @children, $child;
                $tried++;
                # To start so many can take longer than the whole attack.
                tell_count("waiters");
            }
        }
        sleep 0.2;
        kill 'KILL', @children;
        waitpid $_, 0 for @children;
    },
);

# Locks and marks are made once, and stay until the attack ends.
my $made = 0;

# 160,000 record locks, in so many files that the kernel makes them in a moment.
$attacks{locks} = sub {
    for (1 .. ($made ? 0 : 160)) {
        open my $file, '+>', undef or die "a file of locks: $!";
        for my $at (1 .. 1000) {
            $tried++ if fcntl $file, F_SETLK, pack 's s x4 q q l x4', F_RDLCK, 0, 2 * $at, 1, 0;
        }
        push @held, $file;
        tell_count('locks');
    }
    $made = 1;
    sleep 0.2;
};

# 200,000 marks of restarts, of which each could be the next one's, in the environments of ten processes.
$attacks{marks} = sub {
    for (1 .. ($made ? 0 : 10)) {
        my $child = fork;
        last if !defined $child;
        if (!$child) {
            my @marks = map { join '', 'PPMR_RESTART=', map { sprintf '%08x', int rand 2**32 } 1 .. 4 } 1 .. 20_000;
            my ($program, $time) = ('/bin/sleep', '600');
            my ($words, $environment) = (pack('p p Q', $program, $time, 0), pack('p*', @marks) . pack('Q', 0));
            syscall 59, $program, $words, $environment;
            POSIX::_exit(1);
        }
        $tried += 20_000;
        tell_count('marks');
    }
    $made = 1;
    sleep 0.2;
};

my $seed = $o{seed};
my %running;
my $parent = $$;
for my $name (sort keys %attacks) {
    $seed++;
    my $child = fork;
    die "fork: $!" if !defined $child;
    if (!$child) {
        srand $seed;
        while (1) {
            # Whoever has started it is gone.
            POSIX::_exit(0) if getppid != $parent;
            eval { $attacks{$name}->(); 1 } or syswrite STDOUT, "failed $name: $@";
            tell_count($name);
        }
    }
    $running{$child} = $name;
}
waitpid $_, 0 for keys %running;
